"""Heads in memory, as kernels take them: where a head begins, and how its rows are loaded and stored."""

# N segments · H heads · BLOCK_E columns of a tile, a power of two

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class Strided(NamedTuple):
    """A tensor (N, rows, H, columns) with contiguous columns; strides count elements."""

    pointer: Any
    segment: Any
    row: Any
    head: Any


class HeadRows(NamedTuple):
    """The rows of a single head."""

    pointer: Any
    row: Any


def strided(x: Tensor) -> Strided:
    """A tensor (N, rows, H, columns) for a kernel."""
    if x.stride(-1) != 1 and x.shape[-1] != 1:
        raise ValueError(f"columns of stride {x.stride(-1)}, but kernels need contiguous ones")
    return Strided(x, *x.stride()[:3])


@triton.jit
def head_of(x, index, heads):
    """The rows of head `index` % heads of segment `index` // heads."""
    start = (index // heads).to(tl.int64) * x.segment + (index % heads).to(tl.int64) * x.head
    return HeadRows(x.pointer + start, x.row)


@triton.jit
def exist(rows, count):
    """Which rows there are."""
    return (rows >= 0) & (rows < count)


@triton.jit
def load_rows(x, rows, count, width, BLOCK_E: tl.constexpr):
    """Rows of a head, (rows, BLOCK_E), zeros outside of it."""
    column = tl.arange(0, BLOCK_E)
    inside = exist(rows, count)[:, None] & (column < width)[None, :]
    return tl.load(x.pointer + rows[:, None] * x.row + column[None, :], mask=inside, other=0.0)


@triton.jit
def store_rows(x, values, rows, count, width, BLOCK_E: tl.constexpr):
    """Write rows of a head."""
    column = tl.arange(0, BLOCK_E)
    inside = exist(rows, count)[:, None] & (column < width)[None, :]
    tl.store(x.pointer + rows[:, None] * x.row + column[None, :], values, mask=inside)
