"""Cross-entropy of rows of scores and its gradient: a program takes some rows, twice, piece by piece."""

# S seeds · N rows · V classes, padded · BLOCK_R, BLOCK_V rows and columns of a tile

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmt.gpu.tiles import SMALLEST, TILES


def cross_entropy(scores: Tensor, targets: Tensor, classes: int, keep: bool) -> tuple[Tensor, Tensor]:
    """Losses (S, N) of scores (S, N, V), of which the first `classes` exist, and the gradient of the scores.

    A target below zero has no loss. Unless they are to be kept, the scores are overwritten.
    """
    targets = targets.contiguous()
    losses = torch.empty_like(targets, dtype=torch.float32)
    gradient = torch.empty_like(scores) if keep else scores
    rows, stride = targets.numel(), scores.shape[-1]
    if not rows:
        return losses, gradient
    table = TILES["cross_entropy"]
    columns = max(SMALLEST, min(table["elements"], triton.next_power_of_2(stride)))
    height = max(1, min(table["rows"], table["elements"] // columns))
    cross_entropy_kernel[(triton.cdiv(rows, height),)](
        scores, targets, losses, gradient, rows, classes, stride,
        BLOCK_R=height, BLOCK_V=columns, num_warps=table["wide_warps"] if columns > 1024 else table["warps"],
    )  # fmt: skip
    return losses, gradient


@triton.jit
def cross_entropy_kernel(
    scores, targets, losses, gradient, rows, classes, stride, BLOCK_R: tl.constexpr, BLOCK_V: tl.constexpr
):
    """Losses of rows and the gradient of their scores, perhaps over them; a target below zero has none."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    exists = row < rows
    target = tl.load(targets + row, mask=exists, other=-1)
    has_target = target >= 0
    top = tl.full([BLOCK_R], float("-inf"), tl.float32)
    total, chosen = tl.zeros([BLOCK_R], tl.float32), tl.zeros([BLOCK_R], tl.float32)
    for first in range(0, classes, BLOCK_V):
        column = first + tl.arange(0, BLOCK_V)
        inside = exists[:, None] & (column < classes)[None, :]
        pointer = scores + row[:, None] * stride + column[None, :]
        value = tl.load(pointer, mask=inside, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(value, 1))
        level = tl.where(exists, higher, 0.0)
        total = total * tl.exp(top - level) + tl.sum(tl.exp(value - level[:, None]), 1)
        top = higher
        chosen += tl.sum(tl.where(column[None, :] == target[:, None], value, 0.0), 1)
    lse = tl.where(exists, top, 0.0) + tl.log(tl.where(exists, total, 1.0))
    loss = tl.where(target < classes, lse - chosen, float("nan"))
    tl.store(losses + row, tl.where(has_target, loss, 0.0), mask=exists)
    for first in range(0, stride, BLOCK_V):
        column = first + tl.arange(0, BLOCK_V)
        inside = exists[:, None] & (column < classes)[None, :]
        offset = row[:, None] * stride + column[None, :]
        value = tl.load(scores + offset, mask=inside, other=float("-inf")).to(tl.float32)
        to_scores = tl.exp(value - lse[:, None]) - tl.where(column[None, :] == target[:, None], 1.0, 0.0)
        to_scores = tl.where(has_target[:, None] & inside, to_scores, 0.0)
        tl.store(gradient + offset, to_scores, mask=exists[:, None] & (column < stride)[None, :])
