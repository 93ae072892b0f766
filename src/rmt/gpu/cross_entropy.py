"""An output layer in an update: scores, their cross-entropy and its gradient at once.

A bias is one more column of the matrix, where rows are one. The gradient gathers apart from autograd, as that
of the layers does.
"""

# S seeds · N rows · V classes · D width; V and D padded

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.gpu.parameters import EngineSettings
from rmt.gpu.tiles import padded
from rmt.gpu.weight_gradients import WeightGradients, sum_format


class TableSlice(NamedTuple):
    """Rows `start` to `stop` of a table, as classes."""

    weight: Tensor  # (V, D) or (S, V, D)
    bias: Tensor  # (V,) or (S, V)
    start: int
    stop: int


class OutputLayer:
    """Slices of tables, one below the other: the classes of one softmax."""

    def __init__(self, slices: Sequence[TableSlice], settings: EngineSettings):
        self.slices, self.settings = slices, settings
        self.sizes = [part.stop - part.start for part in slices]
        weight, bias = slices[0][:2]
        self.classes, self.width = sum(self.sizes), weight.shape[-1]
        self.seeds = bias.numel() // bias.shape[-1]
        shape = (1, self.seeds, padded(self.classes), padded(self.width + 1))
        self.stored = torch.zeros(shape, dtype=settings.dtype, device=weight.device)
        like = self.stored if settings.learns else self.stored[:0]
        self.gradients = WeightGradients(like, sum_format(settings.dtype), settings.max_waiting)
        self.ends = self.stored.new_zeros(shape[-1] - self.width)
        self.ends[0] = 1.0  # what the bias multiplies

    def begin(self) -> None:
        """Take over the tables as they are now, with a gradient of zero."""
        parts = self.stored[0, :, : self.classes].split(self.sizes, dim=1)
        for part, (weight, bias, start, stop) in zip(parts, self.slices, strict=True):
            part[..., : self.width] = weight.detach()[..., start:stop, :]
            part[..., self.width] = bias.detach()[..., start:stop]
        self.gradients.forget()

    def table_gradients(self) -> list[tuple[Tensor, Tensor]]:
        """The gradients of the slices, (S, V, D) and (S, V)."""
        parts = self.gradients.sums()[0, :, : self.classes].split(self.sizes, dim=1)
        return [(part[..., : self.width], part[..., self.width]) for part in parts]

    def losses(self, hidden: Tensor, targets: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        """Scores of rows (N, D), if they are to be kept, and losses (N,); a target below zero has none."""
        scores, losses = CrossEntropy.apply(hidden, targets, Scoring(self, keep))
        return scores, losses


class Scoring:
    """One call of an output layer, and what its gradient needs."""

    def __init__(self, layer: OutputLayer, keep: bool):
        self.layer, self.keep = layer, keep
        self.rows, self.to_scores = (torch.empty(0),) * 2

    def score(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (S, N, V), or none, and losses (S, N)."""
        layer, settings = self.layer, self.layer.settings
        rows = hidden.new_empty(*hidden.shape[:-1], layer.stored.shape[-1], dtype=settings.dtype)
        rows[..., : layer.width], rows[..., layer.width :] = hidden, layer.ends
        self.rows = rows.view(layer.seeds, -1, rows.shape[-1])
        scores = self.rows @ layer.stored[0].mT
        numbers = targets.reshape(layer.seeds, -1)
        losses, self.to_scores = settings.operations.cross_entropy(scores, numbers, layer.classes, self.keep)
        return scores if self.keep else scores[..., :0], losses


class CrossEntropy(torch.autograd.Function):
    """Scores and losses of rows (N, D), or both with S in front; scores have no gradient."""

    @staticmethod
    def forward(hidden: Tensor, targets: Tensor, scoring: Scoring) -> tuple[Tensor, Tensor]:
        with torch.cuda.device_of(hidden):
            scores, losses = scoring.score(hidden, targets)
        classes = scoring.layer.classes if scoring.keep else 0
        return scores[..., :classes].reshape(*targets.shape, classes), losses.view(targets.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        hidden, _, scoring = inputs
        ctx.layer, ctx.shape = scoring.layer, hidden.shape
        ctx.mark_non_differentiable(output[0])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(scoring.rows, scoring.to_scores)

    @staticmethod
    def backward(ctx: Any, _: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        layer, (rows, to_scores) = ctx.layer, ctx.saved_tensors
        factor = gradient.reshape(layer.seeds, -1, 1)
        scales_scores = to_scores.shape[-1] < rows.shape[-1]  # the narrower of two factors is scaled
        left, right = (to_scores * factor, rows) if scales_scores else (to_scores, rows * factor)
        left, right = left.to(rows.dtype), right.to(rows.dtype)
        layer.gradients.add(layer.gradients.slot_of(0, right), left)
        to_hidden = (left @ layer.stored[0])[..., : layer.width]
        return (to_hidden if scales_scores else to_hidden * factor).reshape(ctx.shape), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, int | None, None], hidden: Tensor, targets: Tensor, scoring: Scoring
    ) -> tuple[Any, tuple[int, int]]:
        """All seeds at once; they may share targets, as those of memory that predicts."""
        if in_dims[1] is None:
            targets = targets.expand(info.batch_size, *targets.shape)
        else:
            targets = targets.movedim(in_dims[1], 0)
        return CrossEntropy.apply(hidden.movedim(in_dims[0], 0), targets, scoring), (0, 0)
