"""Backpropagation through time as the policy of a loop: windows of segments, replayed and differentiated.

The model never cuts a gradient. A schedule is a list of windows over the segments of a sequence; a window
starts from a cut state, so the gradient of its losses reaches its own segments and nothing before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rmt.config import check, positive
from rmt.core.model import Output
from rmt.core.state import State
from rmt.core.unroll import RecurrentCell, Result, unroll

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
    cell: RecurrentCell[Output],
    segments: Sequence[Any],
    incoming: dict[int, State],
    loss_of: LossOf,
    plan: Plan,
    without_loss: Sequence[Any] = (),
) -> Iterator[Unrolled]:
    """Run the windows of `plan` one after the other; the caller differentiates and updates in between.

    `incoming` has the states that segments start from, by their numbers; those behind the windows are added
    to it, cut, and those that no later window can start from are dropped. A window that counts no loss is
    only passed, to know the state behind it. A segment whose loss does not count is taken from
    `without_loss`, if that is given.
    """
    without_loss = without_loss or segments
    for window in plan.windows:
        newest = max(incoming)
        if not window.counted:
            incoming[window.stop] = state_after(cell, without_loss[newest : window.stop], incoming[newest])
            continue
        span = range(window.start, window.stop)
        shown = [(segments if index in window.counted else without_loss)[index] for index in span]
        losses = []
        for index, output in enumerate(outputs_of(cell, shown, window.start, incoming, plan), window.start):
            state = output.state
            if index in window.counted:
                losses.append(loss_of(index, output))
        incoming[window.stop] = state.detach()
        yield Unrolled(window, torch.stack(losses).sum(0))
        forget(incoming, window.start)


def outputs_of(
    cell: RecurrentCell[Output], shown: Sequence[Any], start: int, incoming: Mapping[int, State], plan: Plan
) -> Iterator[Output]:
    """The outputs of a window's segments, from segment number `start` on.

    `stored`: it starts from the state its first segment had. `latest`: it starts from the newest memory, and
    each segment that is replayed has the cache it had when it was new; only memory goes on from one to the
    next. Behind them, the new segment has the cache that the last of them leaves now.
    """
    if plan.replay_from == "stored":
        return unroll(cell, shown, incoming[start], plan.checkpoint)
    newest = max(incoming)
    replayed = [incoming[index] for index in range(start, newest)]
    caches = [*replayed, *[None] * (len(shown) - len(replayed))]

    def with_cache(step: tuple[Any, State | None], state: State) -> Output:
        segment, stored = step
        if stored is not None:
            state = state._replace(cache=stored.cache, cached=stored.cached)
        return cell(segment, state)

    return unroll(with_cache, list(zip(shown, caches, strict=True)), incoming[newest], plan.checkpoint)


def states_needed(incoming: Mapping[int, State], start: int, replay_from: Origin) -> list[State]:
    """The states that a replay from segment number `start` on makes use of, in their order."""
    if replay_from == "stored":
        return [incoming[start]]
    return [incoming[index] for index in range(start, max(incoming) + 1)]


def forget(incoming: dict[int, State], before: int) -> None:
    """Drop the states that come before a segment."""
    for index in [index for index in incoming if index < before]:
        del incoming[index]


@torch.no_grad()
def state_after(cell: RecurrentCell[Any], segments: Sequence[Any], state: State) -> State:
    """The state behind segments that nothing is learned from."""
    for output in unroll(cell, segments, state):
        state = output.state
    return state


def truncated(
    cell: RecurrentCell[Result],
    segments: Sequence[Any],
    state: State,
    depth: Depth,
    *,
    counted: Literal["all", "last"] = "all",
    checkpoint: bool = False,
) -> Iterator[Result]:
    """The output of each segment, differentiable through at most `depth` previous segments.

    `full` is a plain unroll. Otherwise, if `all` segments are counted in the loss, the output of each comes
    from a window of its own, which starts from a cut state: each segment is computed up to depth + 1 times.
    If only the `last` one is, there is one window, and what lies before it is computed once, without a graph.
    The state given is never cut. Without gradients, as under `torch.no_grad`, all of these are the unroll.
    """
    check(depth, Depth, "depth")
    if depth != "full":
        positive("depth", depth, zero=True)
    if depth == "full" or not torch.is_grad_enabled():
        yield from unroll(cell, segments, state, checkpoint and torch.is_grad_enabled())
    elif counted == "last":
        border = max(0, len(segments) - 1 - depth)
        for segment in segments[:border]:
            with torch.no_grad():  # closed before the caller goes on
                output = cell(segment, state)
            yield output
            state = output.state.detach()
        yield from unroll(cell, segments[border:], state, checkpoint)
    else:
        incoming = {0: state}
        for window in windows([1] * len(segments), depth, "sequence"):
            shown = segments[window.start : window.stop]
            *_, output = unroll(cell, shown, incoming[window.start], checkpoint)
            incoming[window.stop] = output.state.detach()
            forget(incoming, window.start)
            yield output


def bptt(
    cell: RecurrentCell[Result],
    segments: Sequence[Any],
    state: State,
    loss_of: Callable[[int, Result], Tensor],
    depth: Depth,
) -> Iterator[Tensor]:
    """The loss of each segment, differentiable through at most `depth` previous segments.

    With `full` the losses share one graph: sum them up before `backward()`.
    """
    for index, output in enumerate(truncated(cell, segments, state, depth)):
        yield loss_of(index, output)
