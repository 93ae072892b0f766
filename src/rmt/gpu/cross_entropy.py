"""An output layer in an update: scores, their cross-entropy and its gradient at once.

A bias is one more column of the matrix, where rows are one. The gradient gathers apart from autograd, as that
of the layers does.
"""

# S seeds · N rows of a seed · V classes · D width; V and D padded in what is stored

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.gpu.padding import add_gradient
from rmt.gpu.settings import EngineSettings
from rmt.gpu.tiles import padded
from rmt.gpu.weight_gradients import WeightGradients, sum_format
from rmt.nn.embedding import GAIN_SCALE


class TableSlice(NamedTuple):
    """Rows `start` to `stop` of a table, as classes."""

    weight: Tensor  # (V, D) or (S, V, D)
    bias: Tensor  # (V,) or (S, V)
    start: int
    stop: int


class OutputLayer:
    """Slices of tables, one below the other: the classes of one softmax."""

    def __init__(self, slices: Sequence[TableSlice], settings: EngineSettings, gain: Tensor | None = None):
        """A `gain` (D,) or (S, D) of hidden states goes into the tables, where these have fewer rows."""
        self.slices, self.settings, self.gain = slices, settings, gain
        self.sizes = [part.stop - part.start for part in slices]
        weight, bias = slices[0][:2]
        self.classes, self.width = sum(self.sizes), weight.shape[-1]
        self.seeds = bias.numel() // bias.shape[-1]
        shape = (1, self.seeds, padded(self.classes), padded(self.width + 1))
        self.stored = torch.zeros(shape, dtype=settings.dtype, device=weight.device)
        like = self.stored if settings.learns else self.stored[:0]
        self.gradients = WeightGradients(like, sum_format(settings.dtype), settings.max_waiting)
        self.bias_columns = self.stored.new_zeros(shape[-1] - self.width)
        self.bias_columns[0] = 1.0  # what the bias multiplies; the others are padding

    def begin(self) -> None:
        """Take over the tables as they are now, with a gradient of zero."""
        parts = self.stored[0, :, : self.classes].split(self.sizes, dim=1)
        for part, (weight, bias, start, stop) in zip(parts, self.slices, strict=True):
            part[..., : self.width] = self.scaled(weight.detach()[..., start:stop, :])
            part[..., self.width] = bias.detach()[..., start:stop]
        self.gradients.begin()

    def scaled(self, table: Tensor) -> Tensor:
        """Rows (…, V, D) times the gain."""
        return table if self.gain is None else table * (GAIN_SCALE * self.gain.detach()).unsqueeze(-2)

    def table_gradients(self) -> list[tuple[Tensor, Tensor]]:
        """The gradients of the slices, (S, V, D) and (S, V); that of the gain is delivered here."""
        parts = self.gradients.finish()[0, :, : self.classes].split(self.sizes, dim=1)
        for part, (weight, _, start, stop) in zip(parts, self.slices, strict=True):
            if self.gain is not None:
                rows = weight.detach()[..., start:stop, :]
                to_gain = (part[..., : self.width] * rows).sum(-2)
                add_gradient(self.gain, GAIN_SCALE * to_gain)
        return [(self.scaled(part[..., : self.width]), part[..., self.width]) for part in parts]

    def losses(self, hidden: Tensor, targets: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        """Scores of rows (…, D), if they are to be kept, and losses (…); a target below zero has none."""
        scores, losses, *_ = CrossEntropy.apply(hidden, targets, self, keep)
        return scores, losses

    def score(self, hidden: Tensor, targets: Tensor, keep: bool) -> ScoredRows:
        """Rows (…, D) of all seeds, flat."""
        rows = hidden.new_empty(*hidden.shape[:-1], self.stored.shape[-1], dtype=self.settings.dtype)
        rows[..., : self.width], rows[..., self.width :] = hidden, self.bias_columns
        rows = rows.view(self.seeds, -1, rows.shape[-1])
        scores, numbers = rows @ self.stored[0].mT, targets.reshape(self.seeds, -1)
        losses, to_scores = self.settings.operations.cross_entropy(scores, numbers, self.classes, keep)
        return ScoredRows(scores, losses, rows, to_scores)


class ScoredRows(NamedTuple):
    """Rows as the table multiplies them, and what comes of it."""

    scores: Tensor  # (S, N, V); overwritten, unless they were to be kept
    losses: Tensor  # (S, N)
    rows: Tensor  # (S, N, D)
    to_scores: Tensor  # (S, N, V) their gradient, where that of each loss is one


class CrossEntropy(torch.autograd.Function):
    """Scores and losses of rows (…, D), S in front where seeds are stacked; scores have no gradient.

    The other two outputs, rows and the gradient of their scores, are what backward needs.
    """

    @staticmethod
    def forward(hidden: Tensor, targets: Tensor, layer: OutputLayer, keep: bool) -> tuple[Tensor, ...]:
        with torch.cuda.device_of(hidden):
            scores, losses, rows, to_scores = layer.score(hidden, targets, keep)
        classes = layer.classes if keep else 0
        scores = scores[..., :classes].reshape(*targets.shape, classes)
        return scores, losses.view(targets.shape), rows, to_scores

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        hidden, _, ctx.layer, _ = inputs
        scores, _, rows, to_scores = output
        ctx.shape = hidden.shape
        ctx.mark_non_differentiable(scores, rows, to_scores)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, to_scores)

    @staticmethod
    def backward(ctx: Any, _: Any, gradient: Tensor, *__: Any) -> tuple[Tensor | None, ...]:
        layer, (rows, to_scores) = ctx.layer, ctx.saved_tensors
        factor = gradient.reshape(layer.seeds, -1, 1)
        scales_scores = to_scores.shape[-1] < rows.shape[-1]  # the narrower of two factors is scaled
        left, right = (to_scores * factor, rows) if scales_scores else (to_scores, rows * factor)
        left, right = left.to(rows.dtype), right.to(rows.dtype)
        layer.gradients.add(layer.gradients.slot_of(0, right), left)
        to_hidden = (left @ layer.stored[0])[..., : layer.width]
        return (to_hidden if scales_scores else to_hidden * factor).reshape(ctx.shape), None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], hidden: Tensor, targets: Tensor, *options: Any
    ) -> tuple[Any, tuple[int, ...]]:
        """All seeds at once; they may share targets, as those of memory that predicts."""
        first, second, *_ = in_dims
        assert first is not None, "hidden states of every seed"
        if second is None:
            targets = targets.expand(info.batch_size, *targets.shape)
        else:
            targets = targets.movedim(second, 0)
        outputs = CrossEntropy.apply(hidden.movedim(first, 0), targets, *options)
        return outputs, (0,) * len(outputs)
