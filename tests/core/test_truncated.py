"""Truncated outputs: each segment's output as a full unroll gives it that was cut by hand."""

import pytest
import torch
from torch import Tensor

from rmt import Output, SegmentModel, State
from rmt.core.bptt import truncated
from tests.laws.models import assert_same, assert_same_gradients, build, configuration, functional, gradients

SEGMENTS, BATCH, LENGTH = 5, 2, 4
KINDS = ("rmt", "transformer_xl_rmt", "transformer_xl")
DEPTHS = (0, 1, 2, 3, 9)
CHECKPOINT = pytest.mark.parametrize("checkpoint", [False, True], ids=["kept", "recomputed"])


@pytest.mark.covering
@CHECKPOINT
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_output_is_that_of_an_unroll_cut_before_its_window(kind, depth, checkpoint):
    model = model_of(kind)
    outputs = truncated(model, segments(), model.initial_state(BATCH), depth, checkpoint=checkpoint)
    for last, output in enumerate(outputs):
        expected = cut_unroll(model, last, cut_before=last - depth)
        assert_same_outputs(output, expected, model)
    assert last == SEGMENTS - 1


@pytest.mark.covering
@CHECKPOINT
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_output_alone_is_that_of_the_same_cut_unroll(kind, depth, checkpoint):
    model = model_of(kind)
    state = model.initial_state(BATCH)
    *_, output = truncated(model, segments(), state, depth, counted="last", checkpoint=checkpoint)
    assert_same_outputs(output, cut_unroll(model, SEGMENTS - 1, SEGMENTS - 1 - depth), model)


@pytest.mark.covering
@pytest.mark.parametrize("counted", ["all", "last"])
@pytest.mark.parametrize("kind", KINDS)
def test_full_is_a_plain_unroll(kind, counted):
    model = model_of(kind)
    outputs = list(truncated(model, segments(), model.initial_state(BATCH), "full", counted=counted))
    expected = [cut_unroll(model, last, cut_before=0) for last in range(SEGMENTS)]
    losses = [sum(loss_of(output) for output in either) for either in (outputs, expected)]
    assert_same_gradients(*(gradients(loss, model) for loss in losses))
    assert_same([output.logits for output in outputs], [output.logits for output in expected])


@pytest.mark.parametrize("depth", [0, 1, "full"])
@pytest.mark.parametrize("counted", ["all", "last"])
def test_the_numbers_do_not_depend_on_depth_or_on_what_counts(counted, depth):
    model = model_of("transformer_xl_rmt")
    outputs = truncated(model, segments(), model.initial_state(BATCH), depth, counted=counted)
    for last, output in enumerate(outputs):
        assert_same(output.logits, cut_unroll(model, last, cut_before=0).logits)


def test_what_lies_before_the_only_window_is_computed_once_and_without_a_graph():
    model, graphs = model_of("rmt"), []
    model.register_forward_hook(lambda module, inputs, output: graphs.append(output.logits.requires_grad))
    list(truncated(model, segments(), model.initial_state(BATCH), 1, counted="last"))
    assert graphs == [False, False, False, True, True]


def test_without_gradients_every_segment_is_computed_once():
    model, calls = model_of("rmt"), []
    model.register_forward_hook(lambda module, inputs, output: calls.append(output.logits.requires_grad))
    with torch.no_grad():
        list(truncated(model, segments(), model.initial_state(BATCH), 2, checkpoint=True))
    assert calls == [False] * SEGMENTS


def test_the_caller_has_gradients_between_two_outputs():
    model = model_of("rmt")
    for _ in truncated(model, segments(), model.initial_state(BATCH), 0, counted="last"):
        assert torch.is_grad_enabled()


@pytest.mark.parametrize("counted", ["all", "last"])
def test_the_given_state_is_never_cut(counted):
    model = model_of("transformer_xl_rmt")
    empty = model.empty_state(BATCH)
    memory = torch.randn_like(empty.memory, requires_grad=True)
    state = State(memory=memory, cache=empty.cache, cached=empty.cached)
    output = next(iter(truncated(model, segments()[:1], state, 0, counted=counted)))
    (gradient,) = torch.autograd.grad(functional(output.logits), memory)
    assert gradient.any()


def test_a_cell_may_give_anything_that_has_a_state():
    class Counted:
        def __init__(self, state: State):
            self.state = state

    calls: list[str] = []

    def cell(segment: str, state: State) -> Counted:
        calls.append(segment)
        return Counted(state)

    state = model_of("rmt").initial_state(1)
    assert len(list(truncated(cell, ["a", "b", "c"], state, 1))) == 3
    assert calls == ["a", "a", "b", "b", "c"]


def model_of(kind: str) -> SegmentModel:
    return build(configuration(kind, vocabulary=SEGMENTS * BATCH * LENGTH))


def segments() -> list[Tensor]:
    return list(torch.arange(SEGMENTS * BATCH * LENGTH).view(SEGMENTS, BATCH, LENGTH).unbind(0))


def cut_unroll(model: SegmentModel, last: int, cut_before: int) -> Output:
    """The output of one segment after an unroll from segment 0 that is cut at one border, if it is one."""
    state = model.initial_state(BATCH)
    for index, tokens in enumerate(segments()[: last + 1]):
        output = model(tokens, state.detach() if index == cut_before and index >= 1 else state)
        state = output.state
    return output


def loss_of(output: Output) -> Tensor:
    return functional(output.logits) + output.state.memory.square().sum()


def assert_same_outputs(output: Output, expected: Output, model: SegmentModel) -> None:
    """Logits and memory agree, and the gradients of both."""
    assert_same(output.logits, expected.logits)
    assert_same(output.state.memory, expected.state.memory)
    assert_same_gradients(*(gradients(loss_of(either), model) for either in (output, expected)))
