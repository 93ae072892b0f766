"""Gradient: memory carries it from segment to segment until it is cut; the cache never does."""

import pytest
import torch
from torch import Tensor

from rmt import SegmentModel
from tests.laws.models import (
    IN_LAYERS,
    KINDS,
    assert_same,
    build,
    functional,
    gradients,
    over,
    random_segments,
    run,
)

WRITTEN = (
    *("rmt", "transformer_xl_rmt", "cache_of_all_positions", "memory_sees_cache", "cache_with_sink"),
    *IN_LAYERS,
)
UNWRITTEN = tuple(kind for kind in KINDS if kind not in WRITTEN)
RECURRENT = (
    *(kind for kind in WRITTEN if "associative" not in kind),
    "unwritten_memory",
)  # that starts empty
STARTS_ANEW = ("memory_transformer", "memory_transformer_with_cache")


@over(WRITTEN)
def test_the_last_loss_reaches_every_token_of_every_segment_through_memory(config):
    reached = embedding_gradients(build(config), cut_after=None)
    assert all(gradient.abs().amax(dim=-1).min() > 1e-9 for gradient in reached)


@over(UNWRITTEN)
def test_the_last_loss_reaches_its_own_segment_only_without_written_memory(config):
    *earlier, own = embedding_gradients(build(config), cut_after=None)
    assert own.abs().amax(dim=-1).min() > 1e-6
    assert not any(gradient.any() for gradient in earlier)


@pytest.mark.covering
@over(WRITTEN)
@pytest.mark.parametrize("cut_after", [0, 1], ids=["cut-after-segment-0", "cut-after-segment-1"])
def test_detach_makes_the_gradients_of_all_earlier_segments_exactly_zero(config, cut_after):
    reached = embedding_gradients(build(config), cut_after)
    assert not any(gradient.any() for gradient in reached[: cut_after + 1])
    assert all(gradient.any() for gradient in reached[cut_after + 1 :])


@over()
def test_detach_changes_no_value(config):
    state = run(build(config), random_segments())[-1].state
    assert_same(state.detach(), state, tolerance=0)


@over(RECURRENT)
def test_the_initial_memory_gets_gradient_from_a_later_segment_if_nothing_was_cut_in_between(config):
    assert initial_memory_gradient(build(config), cut_after=None).abs().amax(dim=-1).min() > 1e-9


@pytest.mark.covering
@over(RECURRENT)
@pytest.mark.parametrize("cut_after", [0, 1], ids=["cut-after-segment-0", "cut-after-segment-1"])
def test_the_initial_memory_gets_no_gradient_from_a_later_segment_across_a_cut(config, cut_after):
    assert not initial_memory_gradient(build(config), cut_after).any()


@over(STARTS_ANEW)
def test_the_initial_memory_gets_gradient_across_a_cut_where_every_segment_starts_from_it(config):
    assert initial_memory_gradient(build(config), cut_after=1).abs().amax(dim=-1).min() > 1e-6


@over([kind for kind in KINDS if "cache" in kind or "xl" in kind])
def test_the_cache_is_born_without_gradient(config):
    for output in run(build(config), random_segments()):
        assert output.state.cached.min() > 0
        assert not any(rows.requires_grad for rows in output.state.cache)


def embedding_gradients(model: SegmentModel, cut_after: int | None) -> list[Tensor]:
    """What the loss of the last of three segments sends to the embedded tokens of each."""
    embedded: list[Tensor] = []
    model.embedding.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    loss = last_loss(model, cut_after)
    return list(torch.autograd.grad(loss, embedded, allow_unused=True, materialize_grads=True))


def initial_memory_gradient(model: SegmentModel, cut_after: int | None) -> Tensor:
    """What the initial memory gets; a kind in the layers starts every segment with the same write block."""
    initial = "memory.start" if model.memory.in_layers else "memory.tokens.weight"
    return gradients(last_loss(model, cut_after), model)[initial]


def last_loss(model: SegmentModel, cut_after: int | None) -> Tensor:
    """A loss of the last of three segments, the state cut after one of the others."""
    segments = random_segments()
    state = model.initial_state(segments[0].shape[0])
    for number, tokens in enumerate(segments):
        logits, state = model(tokens, state)[:2]
        if number == cut_after:
            state = state.detach()
    return functional(logits)
