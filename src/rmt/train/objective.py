"""The loss: cross-entropy summed over the positions that count."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F


class Score(NamedTuple):
    """Sums over the counted positions of a segment; no host synchronisation."""

    loss: Tensor  # ()
    correct: Tensor  # ()


def score(logits: Tensor, targets: Tensor, loss_mask: Tensor) -> Score:
    """Cross-entropy and correct predictions (teacher-forced): (B, L, V), (B, L), (B, L) -> sums."""
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    correct = (logits.argmax(-1) == targets) & loss_mask
    return Score((losses * loss_mask).sum(), correct.sum())
