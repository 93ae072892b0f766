"""Backpropagation through time as the policy of a loop: windows of segments, replayed and differentiated.

The model never cuts a gradient. A schedule is a list of windows over the segments of a sequence; a window
starts from a cut state, so the gradient of its losses reaches its own segments and nothing before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from rmt.core.model import Output
from rmt.core.state import State
from rmt.core.unroll import unroll

Depth = int | Literal["full"]
LossOf = Callable[[int, Output], Tensor]


class Window(NamedTuple):
    """Segments `start` to `stop` (exclusive) and those of them whose losses are summed."""

    start: int
    stop: int
    counted: tuple[int, ...]


class Plan(NamedTuple):
    """The windows of a sequence and how they are replayed."""

    windows: Sequence[Window]
    replay_from: Literal["stored", "latest"] = "stored"
    checkpoint: bool = False


class Unrolled(NamedTuple):
    """A window after its forward pass."""

    window: Window
    loss: Tensor  # sum of the counted losses, differentiable through the window


def windows(counts: Sequence[int], depth: Depth, schedule: str) -> list[Window]:
    """The windows of a schedule over segments that have `counts` losses each.

    sequence, full: one over everything. sequence or sliding, depth k: each segment's loss, with the k
    segments before it. chunked, depth k: k+1 segments with all their losses, side by side.
    """
    segments = len(counts)
    if depth == "full":
        spans = [(0, 0, segments)]
    elif schedule == "chunked":
        spans = [(start, start, min(start + depth + 1, segments)) for start in range(0, segments, depth + 1)]
    else:
        spans = [(max(0, last - depth), last, last + 1) for last in range(segments)]
    return [
        Window(start, stop, tuple(index for index in range(first, stop) if counts[index]))
        for start, first, stop in spans
    ]


def replay(
    model: nn.Module, segments: Sequence[Tensor], state: State, loss_of: LossOf, plan: Plan
) -> Iterator[Unrolled]:
    """Run the windows of `plan` one after the other; the caller differentiates and updates in between.

    A window that counts no loss is only read, to know the state behind it. States at the borders are cut
    when they are stored; the given `state` never is.
    """
    incoming = {0: state}
    for window in plan.windows:
        newest = max(incoming)
        if not window.counted:
            incoming[window.stop] = skim(model, segments[newest : window.stop], incoming[newest])
            continue
        entering = incoming[window.start]
        if plan.replay_from == "latest":
            entering = entering._replace(memory=incoming[newest].memory)
        losses = []
        steps = unroll(model, segments[window.start : window.stop], entering, plan.checkpoint)
        for index, output in enumerate(steps, window.start):
            state = output.state
            if index in window.counted:
                losses.append(loss_of(index, output))
        incoming[window.stop] = state.detach()
        yield Unrolled(window, torch.stack(losses).sum())
        incoming = {index: kept for index, kept in incoming.items() if index >= window.start}


@torch.no_grad()
def skim(model: nn.Module, segments: Sequence[Tensor], state: State) -> State:
    """The state after segments that nothing is learned from."""
    for output in unroll(model, segments, state):
        state = output.state
    return state


def bptt(
    model: nn.Module, segments: Sequence[Tensor], state: State, loss_of: LossOf, depth: Depth
) -> Iterator[Tensor]:
    """The loss of each segment, differentiable through at most `depth` previous segments.

    With `full` the losses share one graph: sum them up before `backward()`.
    """
    if depth == "full":
        for index, output in enumerate(unroll(model, segments, state)):
            yield loss_of(index, output)
        return
    plan = Plan(windows([1] * len(segments), depth, "sequence"))
    for unrolled in replay(model, segments, state, loss_of, plan):
        yield unrolled.loss
