"""An output layer during an update: scores, their cross-entropy and its gradient at once.

A bias is one more column of the matrix, where rows are one. The gradient gathers apart from autograd, as that
of the layers does.
"""

# S seeds · N rows · V classes · D width; V and D filled up

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.fast.banks import wide
from rmt.nn.fast.gradients import Gradients, exact
from rmt.nn.fast.rowwise import tiled
from rmt.nn.heads import KERNELS

if KERNELS:
    import triton

    from rmt.nn.fast import class_tiles


class Piece(NamedTuple):
    """Rows `start` to `stop` of a table."""

    weight: Tensor  # (V, D) or (S, V, D)
    bias: Tensor  # (V,) or (S, V)
    start: int
    stop: int


class Classes:
    """Slices of some tables, one below the other, as classes."""

    def __init__(self, pieces: list[Piece], dtype: torch.dtype, most: int):
        self.pieces = pieces
        self.sizes = [piece.stop - piece.start for piece in pieces]
        weight, bias = pieces[0][:2]
        self.count, self.width = sum(self.sizes), weight.shape[-1]
        self.seeds = bias.numel() // bias.shape[-1]
        shape = (1, self.seeds, wide(self.count), wide(self.width + 1))
        self.stored = torch.zeros(shape, dtype=dtype, device=weight.device)
        self.gradients = Gradients(self.stored, exact(dtype), most)
        self.ends = self.stored.new_zeros(shape[-1] - self.width)
        self.ends[0] = 1.0  # a bias is one more column
        self.kept: tuple[Tensor, ...] = ()  # for the gradient of the last call

    def refresh(self) -> None:
        """Take over the tables as they are now, and begin with a gradient of zero."""
        places = self.stored[0, :, : self.count].split(self.sizes, dim=1)
        for place, (weight, bias, start, stop) in zip(places, self.pieces, strict=True):
            place[..., : self.width] = weight.detach()[..., start:stop, :]
            place[..., self.width] = bias.detach()[..., start:stop]
        self.gradients.forget()

    def found(self) -> list[tuple[Tensor, Tensor]]:
        """The gradients of the pieces, (S, V, D) and (S, V)."""
        parts = self.gradients.sums()[0, :, : self.count].split(self.sizes, dim=1)
        return [(part[..., : self.width], part[..., self.width]) for part in parts]

    def losses(self, hidden: Tensor, targets: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        """Scores of rows (N, D), if they are to be kept, and losses (N,); a target below zero has none."""
        scores, losses = CrossEntropy.apply(hidden, targets, self, keep)
        return scores, losses


class CrossEntropy(torch.autograd.Function):
    """Scores and losses of rows (N, D), or both with S in front; scores have no gradient."""

    @staticmethod
    def forward(hidden: Tensor, targets: Tensor, classes: Classes, keep: bool) -> Any:
        table, width = classes.stored[0], classes.width
        rows = hidden.new_empty(*hidden.shape[:-1], table.shape[-1], dtype=table.dtype)
        rows[..., :width], rows[..., width:] = hidden, classes.ends
        rows = rows.view(classes.seeds, -1, table.shape[-1])
        scores = rows @ table.mT
        with torch.cuda.device_of(hidden):
            losses, gradient = scored(scores, targets.reshape(classes.seeds, -1), classes.count, keep)
        classes.kept = (rows, gradient)
        shown = scores[..., : classes.count if keep else 0]
        return shown.reshape(*targets.shape, -1 if keep else 0), losses.view(targets.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        hidden, _, ctx.classes, _ = inputs
        ctx.shape = hidden.shape
        ctx.mark_non_differentiable(output[0])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*ctx.classes.kept)
        ctx.classes.kept = ()

    @staticmethod
    def backward(ctx: Any, _: Any, gradient: Tensor) -> Any:
        classes, (rows, change) = ctx.classes, ctx.saved_tensors
        factor = gradient.reshape(classes.seeds, -1, 1)
        few = change.shape[-1] < rows.shape[-1]  # the narrower factor is scaled
        left, right = (change * factor, rows) if few else (change, rows * factor)
        left, right = left.to(rows.dtype), right.to(rows.dtype)
        classes.gradients.add(0, left, right)
        back = (left @ classes.stored[0])[..., : classes.width]
        return (back if few else back * factor).reshape(ctx.shape), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, hidden: Tensor, targets: Tensor, classes: Classes, keep: bool) -> Any:
        """All seeds at once."""
        hidden, targets = hidden.movedim(in_dims[0], 0), targets.movedim(in_dims[1], 0)
        return CrossEntropy.apply(hidden, targets, classes, keep), (0, 0)


def scored(scores: Tensor, targets: Tensor, count: int, keep: bool) -> tuple[Tensor, Tensor]:
    """Losses (S, N) of scores (S, N, V), the first `count` of which exist, and their gradient."""
    losses = torch.empty_like(targets, dtype=exact(scores.dtype))
    if not tiled(scores):
        real = scores[..., :count].log_softmax(-1)
        chosen = F.one_hot(targets.clamp(min=0), count).to(real.dtype)
        counts = (targets >= 0)[..., None]
        losses = -torch.where(counts, real * chosen, 0.0).sum(-1)
        change = torch.where(counts, real.exp() - chosen, 0.0)
        return losses, F.pad(change, (0, scores.shape[-1] - count))
    gradient = torch.empty_like(scores) if keep else scores
    rows, stride = targets.numel(), scores.shape[-1]
    if not rows:
        return losses, gradient
    columns = max(16, min(4096, triton.next_power_of_2(stride)))
    height = max(1, min(64, 4096 // columns))
    class_tiles.loss_kernel[(triton.cdiv(rows, height),)](
        scores, targets.contiguous(), losses, gradient, rows, count, stride, BR=height, BV=columns,
        num_warps=8 if columns > 1024 else 4,
    )  # fmt: skip
    return losses, gradient
