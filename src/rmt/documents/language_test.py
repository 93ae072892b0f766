"""How well a decoder predicts a text: with memory carried on, and with memory reset at every segment."""

# B sequences · L tokens of a segment

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rmt.documents.language_training import losses
from rmt.precision import products

AT_ONCE = 8  # sequences
Progress = Callable[[int, int], None]


@torch.no_grad()
def perplexity_of(
    model: Any,
    rows: Tensor,
    length: int,
    *,
    carried: bool,
    precision: str,
    progress: Progress = lambda done, total: None,
) -> float:
    """Perplexity of all but the first tokens of rows (B, T + 1), in segments of `length`.

    The state is `carried` from one to the next, or each starts from the initial one.
    """
    model.eval()
    total, count, device = 0.0, 0, next(model.parameters()).device
    for number, part in enumerate(rows.split(AT_ONCE)):
        state = None
        for start in range(0, rows.shape[1] - 1, length):
            piece = part[:, start : start + length + 1].to(device)
            with products(precision, device):
                output = model(input_ids=piece[:, :-1], state=state, return_state=True)
            state = output.state if carried else None
            loss = losses(output.logits, piece[:, 1:])
            total, count = total + float(loss.double().sum()), count + loss.numel()
        progress(min(len(rows), (number + 1) * AT_ONCE), len(rows))
    return math.exp(min(total / count, 700.0))
