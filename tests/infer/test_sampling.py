"""Drawing a token: the likeliest, or from the tokens that top_k and top_p leave."""

import numpy as np
import pytest
import torch

from rmt.errors import ConfigError
from rmt.infer.sampling import Sampling, generators_of, kept, sample

LOGITS = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()


def share(**settings: float) -> list[float]:
    """How often each token is drawn."""
    rows = LOGITS.expand(4000, -1)
    drawn = sample(rows, Sampling(**settings), generators_of(0, len(rows)))
    return (torch.bincount(drawn, minlength=4) / len(rows)).tolist()


def test_temperature_zero_takes_the_likeliest():
    assert sample(LOGITS.flip(-1), Sampling(temperature=0.0), generators_of(None, 1)).tolist() == [3]


def test_tokens_are_drawn_as_often_as_they_are_likely():
    assert share() == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=0.03)


def test_a_low_temperature_sharpens():
    weights = [0.4**2, 0.3**2, 0.2**2, 0.1**2]
    assert share(temperature=0.5) == pytest.approx([one / sum(weights) for one in weights], abs=0.03)


@pytest.mark.parametrize(("top_k", "left"), [(1, 1), (2, 2), (4, 4), (99, 4)])
def test_top_k_leaves_the_k_likeliest(top_k, left):
    finite = kept(LOGITS, Sampling(top_k=top_k)).isfinite()[0].tolist()
    assert finite == [True] * left + [False] * (4 - left)


@pytest.mark.parametrize(("top_p", "left"), [(0.01, 1), (0.41, 2), (0.69, 2), (0.71, 3), (1.0, 4)])
def test_top_p_leaves_the_fewest_tokens_that_reach_it(top_p, left):
    assert int(kept(LOGITS.flip(-1), Sampling(top_p=top_p)).isfinite().sum()) == left


def test_the_same_seed_draws_the_same_and_rows_have_seeds_of_their_own():
    rows = torch.zeros(3, 1000)
    first, again = (sample(rows, Sampling(), generators_of(4, 3)) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert len(set(first.tolist())) == 3
    assert sample(rows[:1], Sampling(), generators_of(5, 1)).item() == first[1].item()


def test_the_lowest_temperature_takes_the_likeliest():
    assert share(temperature=1e-310) == [1, 0, 0, 0]


@pytest.mark.parametrize("seed", [1.5, "a", True, -1, 2**63])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ConfigError, match="seed="):
        generators_of(seed, 1)


def test_a_number_of_numpy_is_a_seed():
    assert generators_of(np.int64(3), 1)[0].initial_seed() == 3
