"""A cache that holds everything makes many segments one."""

import pytest
import torch

from tests.laws.models import NORMS, POSITIONS, assert_same, build, configuration, random_tokens

TOTAL = 9


@pytest.mark.covering
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    "cache", [TOTAL, TOTAL + 4], ids=["cache-just-holds-the-text", "cache-is-never-full"]
)
@pytest.mark.parametrize(
    "lengths", [[3, 3, 3], [1, 6, 2], [1] * TOTAL], ids=["even", "uneven", "single-tokens"]
)
def test_segments_with_a_cache_of_all_earlier_tokens_are_one_long_segment(norm, positions, cache, lengths):
    segmented = build(configuration("transformer_xl", cache=cache, norm=norm, positions=positions))
    plain = build(configuration("baseline", norm=norm, positions=positions))
    plain.load_state_dict(segmented.state_dict())
    tokens = random_tokens(2, TOTAL)

    state, logits = segmented.initial_state(2), []
    for segment in tokens.split(lengths, dim=1):
        output = segmented(segment, state)
        state = output.state
        logits.append(output.logits)

    whole = plain(tokens, plain.initial_state(2)).logits
    assert_same(torch.cat(logits, dim=1), whole, tolerance=1e-10)
