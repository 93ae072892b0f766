"""Perplexity over lanes of text, against one token after the other."""

# B lanes · T tokens of a lane · L tokens of a segment

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rmt import SegmentModel
from rmt.core.unroll import unroll
from rmt.evaluate.perplexity import SLOTS, perplexity, segment_capacities, with_cache
from rmt.text.lanes import Lanes
from tests.infer.engines import served
from tests.infer.waits import count_waits
from tests.laws.models import CACHE, PRESETS, VOCABULARY, build, configuration

__all__ = ["served"]
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, 50).astype("<u2")
CUTOFFS = (3, 7)


@pytest.mark.covering
@pytest.mark.parametrize("length", [1, 4, 5, 16, 100], ids="length-{}".format)
@pytest.mark.parametrize("batch", [1, 3], ids="batch-{}".format)
@pytest.mark.parametrize("kind", PRESETS)
def test_the_loss_is_that_of_every_token_but_the_first_of_its_lane(kind, batch, length):
    model = build(configuration(kind))
    found = perplexity(model, Lanes(TOKENS, batch), length)
    expected, count = token_by_token(model, batch, length)
    assert found["tokens"] == count == batch * (50 // batch - 1)
    assert found["loss"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("batch", [1, 3], ids="batch-{}".format)
@pytest.mark.parametrize("kind", ["baseline", "transformer_xl_rmt"])
def test_the_loss_of_an_adaptive_softmax_is_that_of_its_log_probabilities(kind, batch):
    model = build(configuration(kind, cutoffs=CUTOFFS))
    found = perplexity(model, Lanes(TOKENS, batch), 5)
    assert found["loss"] == pytest.approx(token_by_token(model, batch, 5)[0], rel=1e-12)


@pytest.mark.parametrize("crowded", [False, True], ids=["even", "crowded"])
@pytest.mark.parametrize("kind", ["baseline", "transformer_xl_rmt"])
def test_shapes_that_do_not_depend_on_targets_give_the_same_loss_exactly(kind, crowded, monkeypatch):
    model, lanes = build(configuration(kind, cutoffs=CUTOFFS)), Lanes(words(crowded), 3)
    expected = perplexity(model, lanes, 100)
    used = []
    forward = model.embedding.scored
    model.embedding.scored = lambda hidden, targets, slots: (
        used.append(slots) or forward(hidden, targets, slots)
    )
    monkeypatch.setattr("rmt.evaluate.perplexity.is_static", lambda segment: True)
    assert perplexity(model, lanes, 100) == expected
    assert used == segment_capacities(lanes, 100, CUTOFFS)
    assert len(set(used)) == 1 + crowded


def test_slots_suffice_for_every_segment_and_crowded_ones_have_their_own():
    lanes = Lanes(words(crowded=True), 3)
    capacities, targets = segment_capacities(lanes, 100, CUTOFFS), lanes.tail_targets(100, CUTOFFS)
    for slots, needed in zip(capacities, targets.T.tolist(), strict=True):
        assert all(slot >= count for slot, count in zip(slots, needed, strict=True))
        assert all(slot % SLOTS == 0 or slot == 300 for slot in slots)
    usual, most = sorted(set(capacities))
    assert usual[1] < most[1]
    assert [slots == most for slots in capacities] == (targets[1] > usual[1]).tolist()


def test_without_clusters_there_are_no_slots():
    assert segment_capacities(Lanes(TOKENS, 3), 5, ()) == [()] * 3


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("cutoffs", [(), CUTOFFS], ids=["softmax", "adaptive"])
def test_in_the_engine_a_model_has_the_same_loss_and_its_parameters_of_now(cutoffs, monkeypatch):
    model, lanes = build(configuration("transformer_xl_rmt", cutoffs=cutoffs)), Lanes(TOKENS, 3)
    for _ in range(2):
        with torch.no_grad():
            next(model.parameters()).mul_(1.1)
        with monkeypatch.context() as patch:
            patch.setattr("rmt.infer.work.why_not_served", lambda model, precision, learns: "no")
            plain = perplexity(model, lanes, 5)
        assert perplexity(model, lanes, 5) == plain


def test_nobody_waits_for_the_device_before_the_end(monkeypatch):
    model, waits = build(configuration("rmt", cutoffs=CUTOFFS)), []
    monkeypatch.setattr("rmt.evaluate.perplexity.is_static", lambda segment: True)
    for length in (24, 2):
        with monkeypatch.context() as patch:
            counts = count_waits(patch)
            perplexity(model, Lanes(TOKENS, 2), length)
        waits.append(counts)
    assert waits[0] == waits[1]


def words(crowded: bool) -> np.ndarray:
    """Three lanes of ten segments of 100 words and one more; in a crowded one all words are rare."""
    chosen = np.random.default_rng(1).choice(VOCABULARY, 3003, p=[0.3] * 3 + [0.1 / 9] * 9)
    if crowded:
        chosen.reshape(3, 1001)[:, 501:601] = VOCABULARY - 1
    return chosen.astype("<u2")


def test_perplexity_and_bits_are_the_loss_in_other_units():
    found = perplexity(build(configuration("rmt")), Lanes(TOKENS, 2), 6)
    assert found["loss"] > 1
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]), rel=1e-12)
    assert found["bits_per_character"] == pytest.approx(found["loss"] / math.log(2), rel=1e-12)
    assert list(found) == ["loss", "perplexity", "bits_per_character", "tokens"]


@pytest.mark.parametrize("kind", PRESETS)
def test_the_state_goes_on_from_segment_to_segment(kind):
    model, forgetful = build(configuration(kind)), build(configuration(kind))
    read = forgetful.forward
    forgetful.forward = lambda tokens, state, **rest: read(tokens, model.initial_state(len(tokens)), **rest)
    carried, lost = (perplexity(one, Lanes(TOKENS, 3), 6)["loss"] for one in (model, forgetful))
    assert (carried == pytest.approx(lost, rel=1e-9)) is (kind in ("baseline", "memory_transformer"))


@pytest.mark.covering
@pytest.mark.parametrize("size", [0, 1, 2, CACHE, 9, 30], ids="cache-{}".format)
@pytest.mark.parametrize("kind", ["transformer_xl", "transformer_xl_rmt", "cache_of_all_positions"])
def test_another_cache_is_a_model_built_with_that_cache(kind, size):
    model = build(configuration(kind))
    built = SegmentModel(replace(model.config, cache=replace(model.config.cache, size=size))).eval()
    built.load_state_dict(model.state_dict())
    other = with_cache(model, size)
    assert other.config == built.config
    found = perplexity(other, Lanes(TOKENS, 3), 4)
    assert found == perplexity(built, Lanes(TOKENS, 3), 4)
    assert (found == perplexity(model, Lanes(TOKENS, 3), 4)) is (size == CACHE)


def test_another_cache_leaves_the_model_alone_and_shares_its_weights():
    model = build(configuration("transformer_xl_rmt"))
    before = perplexity(model, Lanes(TOKENS, 3), 4)
    other = with_cache(model, 9)
    perplexity(other, Lanes(TOKENS, 3), 4)
    assert model.config.cache.size == model.cache.size == CACHE
    assert perplexity(model, Lanes(TOKENS, 3), 4) == before
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert mine is theirs


@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
@pytest.mark.parametrize("cache", [None, 9], ids=["its-cache", "another-cache"])
def test_a_model_is_measured_without_dropout_and_left_in_the_mode_it_was_in(training, cache):
    model = build(configuration("transformer_xl_rmt", dropout=0.5)).train(training)
    measured = model if cache is None else with_cache(model, cache)
    first, second = (perplexity(measured, Lanes(TOKENS, 3), 4) for _ in range(2))
    assert first == second
    assert {module.training for module in (*model.modules(), *measured.modules())} == {training}


def test_no_gradient_is_recorded():
    model, recorded = build(configuration("rmt")), []
    model.register_forward_hook(lambda module, inputs, output: recorded.append(output.losses.requires_grad))
    perplexity(model, Lanes(TOKENS, 3), 4)
    assert recorded == [False] * 4


def test_progress_is_told_segment_by_segment():
    told = []
    model = build(configuration("baseline"))
    perplexity(model, Lanes(TOKENS, 3), 7, lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_hopeless_model_has_a_finite_perplexity():
    model = build(configuration("baseline"))
    with torch.no_grad():
        model.embedding.bias.copy_(torch.arange(VOCABULARY) * 1e4)
    found = perplexity(model, Lanes(TOKENS, 1), 7)
    assert found["loss"] > 700
    assert math.isfinite(found["perplexity"])


@torch.no_grad()
def token_by_token(model: SegmentModel, batch: int, length: int) -> tuple[float, int]:
    """The mean loss, one lane alone and one token after the other, and how many tokens there are."""
    losses, lane = [], len(TOKENS) // batch
    for row in range(batch):
        tokens = torch.from_numpy(TOKENS[row * lane : (row + 1) * lane].astype(np.int64))
        segments = tokens[None, :-1].split(length, dim=1)
        outputs = unroll(model, segments, model.initial_state(1))
        logits = torch.cat([output.logits[0] for output in outputs])
        for scores, target in zip(logits, tokens[1:], strict=True):
            losses.append(float(scores.logsumexp(0) - scores[target]))
    return math.fsum(losses) / len(losses), len(losses)
