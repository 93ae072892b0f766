"""Rotary positions: the halves of heads rotated by the angles of their rows, in place."""

# N segments · R rows · H heads · E head width · BLOCK_R, BLOCK_HALF rows and columns of a tile

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmt.gpu.kernels.strided import strided
from rmt.gpu.tiles import TILES, block


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, backward: bool = False) -> None:
    """Rotate heads x (N, R, H, E) by angles with these cosines and sines (R, E/2), or back, in place."""
    batch, length, heads, width = x.shape
    rows, tile = batch * length, TILES["rotate"]["rows"]
    with torch.cuda.device_of(x):
        rotate_kernel[(triton.cdiv(rows, tile), heads)](
            strided(x), cosine, sine, -1.0 if backward else 1.0, rows, length,
            HALF=width // 2, BLOCK_R=tile, BLOCK_HALF=block(width // 2),
        )  # fmt: skip


@triton.jit
def rotate_kernel(
    x, cosine, sine, sign, rows, length,
    HALF: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_HALF: tl.constexpr,
):  # fmt: skip
    """Rows of one head; what is rotated are the pairs (x_e, x_{e + HALF})."""
    row, column = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_HALF)
    inside = (row < rows)[:, None] & (column < HALF)[None, :]
    segment, position = (row // length).to(tl.int64), row % length
    start = x.pointer + segment * x.segment + position * x.row + tl.program_id(1) * x.head
    first_half = start[:, None] + column[None, :]
    a = tl.load(first_half, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(first_half + HALF, mask=inside, other=0.0).to(tl.float32)
    angle = position[:, None] * HALF + column[None, :]
    cos = tl.load(cosine + angle, mask=inside, other=0.0).to(tl.float32)
    sin = tl.load(sine + angle, mask=inside, other=0.0).to(tl.float32) * sign
    tl.store(first_half, a * cos - b * sin, mask=inside)
    tl.store(first_half + HALF, b * cos + a * sin, mask=inside)
