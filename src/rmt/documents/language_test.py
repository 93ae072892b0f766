"""How well a decoder predicts a text, by what is carried from segment to segment."""

# B sequences · L tokens of a segment

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rmt.core.state import State
from rmt.documents.language_training import losses
from rmt.precision import products

AT_ONCE = 8  # sequences
Progress = Callable[[int, int], None]
Carry = Callable[[State], State | None]  # what the next segment starts from; none = the initial state


def everything(state: State) -> State:
    """Memory and cache."""
    return state


def nothing(state: State) -> None:
    """Every segment starts anew."""


def cache_alone(model: Any) -> Carry:
    """The cache of the segment before, and initial memory."""

    def carry(state: State) -> State:
        initial: State = model.initial_state(len(state.cached))
        return state._replace(carried=initial.carried)

    return carry


@torch.no_grad()
def perplexity_of(
    model: Any,
    rows: Tensor,
    length: int,
    *,
    carry: Carry = everything,
    precision: str,
    progress: Progress = lambda done, total: None,
) -> float:
    """Perplexity of all but the first tokens of rows (B, T + 1), in segments of `length`."""
    model.eval()
    total, count, device = 0.0, 0, next(model.parameters()).device
    for number, part in enumerate(rows.split(AT_ONCE)):
        state = None
        for start in range(0, rows.shape[1] - 1, length):
            piece = part[:, start : start + length + 1].to(device)
            with products(precision, device):
                output = model(input_ids=piece[:, :-1], state=state, return_state=True)
            state = carry(output.state)
            loss = losses(output.logits, piece[:, 1:])
            total, count = total + float(loss.double().sum()), count + loss.numel()
        progress(min(len(rows), (number + 1) * AT_ONCE), len(rows))
    return math.exp(min(total / count, 700.0))
