"""The kernel of `rmt.nn.fast.products`: a program makes one tile of a product, and what follows it."""

# N rows · F columns · D depth · BN, BF, BD sizes of a tile

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def relu_gradient_product_kernel(
    left, right, inner, found, sums, rows, columns, depth,
    BN: tl.constexpr, BF: tl.constexpr, BD: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """found = left right where inner > 0, else zero; its sums over rows go to `sums` (tiles of rows, F)."""
    number, high, broad = tl.program_id(0), tl.cdiv(rows, BN), tl.cdiv(columns, BF)
    top = number // (GROUP * broad) * GROUP  # GROUP tiles of rows share columns while these are at hand
    height, rest = min(high - top, GROUP), number % (GROUP * broad)
    down, across = top + rest % height, rest // height
    total = tl.zeros((BN, BF), tl.float32)
    for start in range(0, depth, BD):
        total = tl.dot(left.load([down * BN, start]), right.load([start, across * BF]), total)
    kept = inner.load([down * BN, across * BF])
    value = tl.where(kept > 0, total.to(kept.dtype), 0.0)
    found.store([down * BN, across * BF], value)
    column = across * BF + tl.arange(0, BF)
    place = sums + down * columns + column  # nobody else adds to it
    tl.atomic_add(place, tl.sum(value.to(tl.float32), 0), mask=column < columns, sem="relaxed")
