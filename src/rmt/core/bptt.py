"""Backpropagation through time as the policy of a loop: windows of segments, replayed and differentiated.

The model never cuts a gradient. A schedule is a list of windows over the segments of a sequence; a window
starts from a cut state, so the gradient of its losses reaches its own segments and nothing before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rmt.core.model import Output
from rmt.core.state import State
from rmt.core.unroll import Read, unroll

Depth = int | Literal["full"]
Origin = Literal["stored", "latest"]
LossOf = Callable[[int, Output], Tensor]


class Window(NamedTuple):
    """Segments `start` to `stop` (exclusive) and those of them whose losses are summed."""

    start: int
    stop: int
    counted: tuple[int, ...]

    def seen_from(self, first: int) -> Window:
        """The same window, if segments are counted from number `first` on."""
        return Window(self.start - first, self.stop - first, tuple(index - first for index in self.counted))


class Plan(NamedTuple):
    """The windows of a sequence and how they are replayed."""

    windows: Sequence[Window]
    replay_from: Origin = "stored"
    checkpoint: bool = False


class Unrolled(NamedTuple):
    """A window after its forward pass."""

    window: Window
    loss: Tensor  # sum of the counted losses, differentiable through the window


def windows(counts: Sequence[int], depth: Depth, schedule: str, past: int = 0) -> list[Window]:
    """The windows of a schedule over segments that have `counts` losses each, behind `past` earlier ones.

    sequence, full: one over everything. sequence or sliding, depth k: each segment's loss, with the k
    segments before it. chunked, depth k: k+1 segments with all their losses, side by side.
    """
    end = past + len(counts)
    if depth == "full":
        spans = [(past, past, end)]
    elif schedule == "chunked":
        spans = [(start, start, min(start + depth + 1, end)) for start in range(past, end, depth + 1)]
    else:
        spans = [(max(0, last - depth), last, last + 1) for last in range(past, end)]
    return [
        Window(start, stop, tuple(index for index in range(first, stop) if counts[index - past]))
        for start, first, stop in spans
    ]


def replay(
    read: Read,
    segments: Sequence[Any],
    incoming: dict[int, State],
    loss_of: LossOf,
    plan: Plan,
    quiet: Sequence[Any] = (),
) -> Iterator[Unrolled]:
    """Run the windows of `plan` one after the other; the caller differentiates and updates in between.

    `incoming` has the states that segments start from, by their numbers; those behind the windows are added
    to it, cut, and those that no later window can start from are dropped. A window that counts no loss is
    only read, to know the state behind it. What has no loss is read from `quiet`, if that is given.
    """
    quiet = quiet or segments
    for window in plan.windows:
        newest = max(incoming)
        if not window.counted:
            incoming[window.stop] = skim(read, quiet[newest : window.stop], incoming[newest])
            continue
        losses, state = [], enter(incoming, window.start, plan.replay_from)
        span = range(window.start, window.stop)
        shown = [(segments if index in window.counted else quiet)[index] for index in span]
        steps = unroll(read, shown, state, plan.checkpoint)
        for index, output in enumerate(steps, window.start):
            state = output.state
            if index in window.counted:
                losses.append(loss_of(index, output))
        incoming[window.stop] = state.detach()
        yield Unrolled(window, torch.stack(losses).sum(0))
        forget(incoming, window.start)


def enter(incoming: Mapping[int, State], start: int, replay_from: Origin) -> State:
    """The state a window starts from: the one its first segment had, or that with the newest memory."""
    if replay_from == "stored":
        return incoming[start]
    return incoming[start]._replace(carried=incoming[max(incoming)].carried)


def forget(incoming: dict[int, State], before: int) -> None:
    """Drop the states that come before a segment."""
    for index in [index for index in incoming if index < before]:
        del incoming[index]


@torch.no_grad()
def skim(read: Read, segments: Sequence[Any], state: State) -> State:
    """The state after segments that nothing is learned from."""
    for output in unroll(read, segments, state):
        state = output.state
    return state


def bptt(
    read: Read, segments: Sequence[Any], state: State, loss_of: LossOf, depth: Depth
) -> Iterator[Tensor]:
    """The loss of each segment, differentiable through at most `depth` previous segments.

    With `full` the losses share one graph: sum them up before `backward()`.
    """
    if depth == "full":
        for index, output in enumerate(unroll(read, segments, state)):
            yield loss_of(index, output)
        return
    plan = Plan(windows([1] * len(segments), depth, "sequence"))
    for unrolled in replay(read, segments, {0: state}, loss_of, plan):
        yield unrolled.loss
