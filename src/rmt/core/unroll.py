"""Segment after segment: the recurrence, apart from the cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.utils.checkpoint import checkpoint as recompute

from rmt.core.model import Output
from rmt.core.state import State

Read = Callable[[Any, State], Output]  # a model: its segments are tokens (B, L)


def unroll(read: Read, segments: Iterable[Any], state: State, checkpoint: bool = False) -> Iterator[Output]:
    """The output of each segment in turn, each starting from the state its predecessor left.

    With `checkpoint`, only the states at the borders are kept for the backward pass, and each segment
    is computed again when its gradient is needed: the same gradient, in the memory of one segment.
    """
    for segment in segments:
        output: Output = (
            recompute(read, segment, state, use_reentrant=False) if checkpoint else read(segment, state)
        )
        yield output
        state = output.state
