"""Segment after segment: the recurrence, apart from the cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from torch.utils.checkpoint import checkpoint as recompute

from rmt.core.state import State


class Stateful(Protocol):
    """What a segment gives: anything, and the state behind it."""

    @property
    def state(self) -> State: ...


Result = TypeVar("Result", bound=Stateful)
RecurrentCell = Callable[[Any, State], Result]  # a model; its segments are tokens (B, L), or what it encodes


def unroll(
    cell: RecurrentCell[Result], segments: Iterable[Any], state: State, checkpoint: bool = False
) -> Iterator[Result]:
    """The output of each segment in turn, each starting from the state its predecessor left.

    With `checkpoint`, only the states at the borders are kept for the backward pass, and each segment
    is computed again when its gradient is needed: the same gradient, in the memory of one segment.
    """
    for segment in segments:
        output: Result = (
            recompute(cell, segment, state, use_reentrant=False) if checkpoint else cell(segment, state)
        )
        yield output
        state = output.state
