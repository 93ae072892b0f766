"""Reach: what a segment can know of earlier ones, through memory and through the cache."""

import pytest
import torch

from rmt.core.cache import cache_reach
from tests.laws.models import KINDS, LENGTH, build, configuration, influence, over

NEAR = ("baseline", "memory_transformer", "unwritten_memory")
FAR = tuple(kind for kind in KINDS if kind not in NEAR)


@over(FAR)
def test_a_token_reaches_all_later_segments_with_written_memory_or_a_cache(config):
    changed = influence(build(config), count=3)
    assert changed[:LENGTH, LENGTH:].min() > 1e-9


@over(NEAR)
def test_a_token_stays_in_its_segment_without_written_memory_and_without_a_cache(config):
    changed = influence(build(config), count=3)
    assert changed[:LENGTH, LENGTH:].max() <= 1e-12


@over(("unwritten_memory",))
def test_memory_handed_on_unwritten_changes_from_segment_to_segment_but_not_with_the_tokens(config):
    model = build(config)
    initial = model.initial_state(1)
    one, other = (model(torch.tensor([tokens]), initial).state.memory for tokens in ([1, 2, 3], [7, 5, 8]))
    assert (one - initial.memory).abs().max() > 1e-3
    assert torch.equal(one, other)


@pytest.mark.parametrize("positions", ["relative", "rotary", "relative-lm-rmt"])
@pytest.mark.parametrize(
    ("layers", "length", "cache"),
    [
        pytest.param(1, 2, 4, id="1-layer-cache-of-2-segments"),
        pytest.param(2, 2, 2, id="2-layers-cache-of-1-segment"),
        pytest.param(2, 1, 3, id="2-layers-cache-of-3-segments"),
        pytest.param(3, 2, 2, id="3-layers-cache-of-1-segment"),
    ],
)
def test_a_cache_of_whole_segments_reaches_exactly_its_size_times_the_layers(
    layers, length, cache, positions
):
    model = build(configuration("transformer_xl", cache=cache, layers=layers, positions=positions))
    assert reached_by_the_last_segment(model, length) == layers * cache == cache_reach(layers, length, cache)


@pytest.mark.parametrize(
    ("length", "cache"),
    [
        pytest.param(4, 1, id="cache-within-a-segment"),
        pytest.param(4, 6, id="cache-of-a-segment-and-a-half"),
    ],
)
def test_a_cache_that_splits_a_segment_also_reaches_what_the_rest_of_that_segment_saw(length, cache):
    model = build(configuration("transformer_xl", cache=cache, layers=2))
    assert reached_by_the_last_segment(model, length) == cache_reach(2, length, cache)


def reached_by_the_last_segment(model, length: int, count: int = 8) -> int:
    """How many tokens before the last of `count` segments change its logits: an unbroken run up to it."""
    start = (count - 1) * length
    changed = influence(model, count, length)[:start, start:].amax(dim=1) > 1e-12
    reached = int(changed.sum())
    assert reached < start, "the run must end inside the text, or the test shows nothing"
    assert changed[start - reached :].all()
    return reached
