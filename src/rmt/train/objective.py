"""The loss: cross-entropy summed over the positions that count."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rmt.core.model import Output
from rmt.tasks.segments import Segment


class Score(NamedTuple):
    """Sums over the counted positions of a segment; no host synchronisation."""

    loss: Tensor  # (), or (K,) of stacked models
    correct: Tensor  # right predictions (teacher-forced); nothing is known of an adaptive softmax's


def score(output: Output, segment: Segment) -> Score:
    """The sums of a segment's output."""
    losses, mask = output.losses, segment.loss_mask
    assert losses is not None, "the model was not given targets"
    known = output.logits.shape[-1] > 0
    correct = (output.logits.argmax(-1) == segment.targets) & mask if known else mask & ~mask
    return Score((losses * mask).sum((-2, -1)), correct.sum((-2, -1)))
