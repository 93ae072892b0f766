"""Segment after segment: the recurrence, apart from the cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute

from rmt.core.model import Output
from rmt.core.state import State


def unroll(
    model: nn.Module, segments: Iterable[Tensor], state: State, checkpoint: bool = False
) -> Iterator[Output]:
    """The output of each segment (B, L) in turn, each starting from the state its predecessor left.

    With `checkpoint`, only the states at the borders are kept for the backward pass, and each segment
    is computed again when its gradient is needed: the same gradient, in the memory of one segment.
    """
    for tokens in segments:
        output: Output = (
            recompute(model, tokens, state, use_reentrant=False) if checkpoint else model(tokens, state)
        )
        yield output
        state = output.state
