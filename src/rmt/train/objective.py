"""The loss: cross-entropy summed over the positions that count."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rmt.core.model import Output
from rmt.tasks.segments import Segment


def loss(output: Output, segment: Segment) -> Tensor:
    """The sum over the counted positions of a segment, (), or (K,) of stacked models."""
    assert output.losses is not None, "the model was not given targets"
    return (output.losses * segment.loss_mask).sum((-2, -1))


def predictions(output: Output, segment: Segment) -> Tensor:
    """The likeliest tokens (teacher-forced); of an adaptive softmax's nothing is known."""
    known = output.logits.shape[-1] > 0
    return output.logits.argmax(-1) if known else torch.full_like(segment.targets, -1)


def correct(predicted: Sequence[Tensor], segments: Sequence[Segment]) -> Tensor:
    """How many predictions are right at the counted positions of some segments."""
    targets, masks = zip(*((segment.targets, segment.loss_mask) for segment in segments), strict=True)
    right = torch.cat(list(predicted), dim=-1) == torch.cat(targets, dim=-1)
    return (right & torch.cat(masks, dim=-1)).sum((-2, -1))
