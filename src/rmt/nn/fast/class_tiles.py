"""The kernel of `rmt.nn.fast.classes`: a program takes some rows of scores, twice, piece by piece."""

# N rows · V classes · BR, BV rows and columns of a tile

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def loss_kernel(scores, targets, losses, gradient, rows, classes, stride, BR: tl.constexpr, BV: tl.constexpr):
    """Cross-entropy of rows of scores and its gradient, perhaps over them; a target below zero has none."""
    row = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    real = row < rows
    target = tl.load(targets + row, mask=real, other=-1)
    counts = target >= 0
    top = tl.full([BR], float("-inf"), tl.float32)
    total, chosen = tl.zeros([BR], tl.float32), tl.zeros([BR], tl.float32)
    for first in range(0, classes, BV):
        column = first + tl.arange(0, BV)
        inside = real[:, None] & (column < classes)[None, :]
        place = scores + row[:, None] * stride + column[None, :]
        value = tl.load(place, mask=inside, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(value, 1))
        level = tl.where(real, higher, 0.0)
        total = total * tl.exp(top - level) + tl.sum(tl.exp(value - level[:, None]), 1)
        top = higher
        chosen += tl.sum(tl.where(column[None, :] == target[:, None], value, 0.0), 1)
    weight = tl.where(real, top, 0.0) + tl.log(tl.where(real, total, 1.0))
    loss = tl.where(target < classes, weight - chosen, float("nan"))
    tl.store(losses + row, tl.where(counts, loss, 0.0), mask=real)
    for first in range(0, stride, BV):
        column = first + tl.arange(0, BV)
        inside = real[:, None] & (column < classes)[None, :]
        place = row[:, None] * stride + column[None, :]
        value = tl.load(scores + place, mask=inside, other=float("-inf")).to(tl.float32)
        share = tl.exp(value - weight[:, None]) - tl.where(column[None, :] == target[:, None], 1.0, 0.0)
        share = tl.where(counts[:, None] & inside, share, 0.0)
        tl.store(gradient + place, share, mask=real[:, None] & (column < stride)[None, :])
