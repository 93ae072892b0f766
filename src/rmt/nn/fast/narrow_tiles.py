"""The kernels of `rmt.nn.fast.narrow`: a program takes some rows of one seed through a layer's products."""

# S seeds · N rows · W true width · D width · P = H·E heads side by side · F inner width
# BR, BD, BC sizes of a tile

from __future__ import annotations

import triton
import triton.language as tl

from rmt.nn.fast.row_tiles import back_through_norm, moments, units


@triton.jit
def matrix(base, rows, columns, height, stride):
    """Some rows and columns of a matrix, zeros below it and beside it."""
    inside = (rows < height)[:, None] & (columns < stride)[None, :]
    place = base + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    return tl.load(place, mask=inside, other=0.0)


@triton.jit
def keep(base, rows, columns, height, stride, values):
    inside = (rows < height)[:, None] & (columns < stride)[None, :]
    tl.store(base + rows.to(tl.int64)[:, None] * stride + columns[None, :], values, mask=inside)


@triton.jit
def gather(place, values, inside):
    """Add sums over rows to a place where nobody else adds."""
    tl.atomic_add(place, tl.sum(values, 0), mask=inside, sem="relaxed")


@triton.jit
def norm_of(values, rows, columns, height, W, gain, move):
    """A layer norm of rows."""
    inside = (rows < height)[:, None] & (columns < W)[None, :]
    mean, scale = moments(tl.where(inside, values, 0.0), inside, W)
    gains = tl.load(gain + columns, mask=columns < W, other=0.0)
    moves = tl.load(move + columns, mask=columns < W, other=0.0)
    unit = units(values, mean, scale, inside)
    return tl.where(inside, unit * gains[None, :] + moves[None, :], 0.0)


@triton.jit
def norm_back(come, values, above, rows, columns, height, W, D, gain, sums):
    """`above` and what comes back through a layer norm of values; to `sums` gain's and shift's gradient."""
    real = columns < W
    inside = (rows < height)[:, None] & real[None, :]
    gains = tl.load(gain + columns, mask=real, other=0.0)
    mean, scale = moments(values, inside, W)
    unit = units(values, mean, scale, inside)
    back = back_through_norm(come, unit, scale, gains, W)
    gather(sums + columns, come * unit, real)
    gather(sums + D + columns, come, real)
    return tl.where(inside, back + above, 0.0)


@triton.jit
def come_back(
    come, x, above, qkv, gain, sums, seed, rows, columns, height, length, last,
    W: tl.constexpr, D: tl.constexpr, P: tl.constexpr,
    FINAL: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The gradient of x, the input of a layer or of the final norm (FINAL), and of what is added to x.

    `come` is that of the projected rows (S, N, 3 · P), or of the final norm; `above` goes past the layer, to
    the `last` rows of every segment.
    """
    values = matrix(x + seed * height * D, rows, columns, height, D)
    if FINAL:
        found = matrix(come + seed * height * D, rows, columns, height, D).to(tl.float32)
        result = tl.zeros([BR, BD], tl.float32)
    else:
        few, row = height // length * last, rows % length - (length - last)
        row = tl.where(row < 0, few, rows // length * last + row)
        result = matrix(above + seed * few * D, row, columns, few, D)
        found = tl.zeros([BR, BD], tl.float32)
        for start in range(0, 3 * P, BC):
            part = start + tl.arange(0, BC)
            back = matrix(come + seed * height * 3 * P, rows, part, height, 3 * P)
            found += tl.dot(back, matrix(qkv + seed * 3 * P * D, part, columns, 3 * P, D))
    result = norm_back(found, values, result, rows, columns, height, W, D, gain + seed * D, sums)
    gather(sums + 2 * D + columns, result, columns < W)
    return result


@triton.jit
def finish_kernel(
    attended, x, out, gain, move, up, up_bias, down, down_bias, next_gain, next_move, next_qkv,
    middle, second, inner, total, normal, projected, height, length, last,
    W: tl.constexpr, D: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
    HAS_NEXT: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Behind attention: its projection, the residual, the norm, the feed-forward block, the next norm.

    The rows are the `last` of every segment in x. Where a layer HAS_NEXT, its projection too.
    """
    seed = tl.program_id(1).to(tl.int64)
    rows, columns = tl.program_id(0) * BR + tl.arange(0, BR), tl.arange(0, BD)
    first = seed * height
    vector = seed * D
    many, row = height // last * length, rows // last * length + rows % last + (length - last)
    found = matrix(x + seed * many * D, row, columns, many, D)
    for start in range(0, P, BC):
        part = start + tl.arange(0, BC)
        seen = matrix(attended + first * P, rows, part, height, P)
        found += tl.dot(seen, tl.trans(matrix(out + vector * P, columns, part, D, P)))
    keep(middle + first * D, rows, columns, height, D, found)
    unit = norm_of(found, rows, columns, height, W, gain + vector, move + vector)
    unit = unit.to(second.dtype.element_ty)
    keep(second + first * D, rows, columns, height, D, unit)
    for start in range(0, F, BC):
        part = start + tl.arange(0, BC)
        value = tl.dot(unit, tl.trans(matrix(up + seed * F * D, part, columns, F, D)))
        value += tl.load(up_bias + seed * F + part, mask=part < F, other=0.0).to(tl.float32)[None, :]
        value = tl.maximum(value, 0.0).to(inner.dtype.element_ty)
        keep(inner + first * F, rows, part, height, F, value)
        found += tl.dot(value, tl.trans(matrix(down + vector * F, columns, part, D, F)))
    found += tl.load(down_bias + vector + columns, mask=columns < W, other=0.0)[None, :]
    keep(total + first * D, rows, columns, height, D, found)
    unit = norm_of(found, rows, columns, height, W, next_gain + vector, next_move + vector)
    unit = unit.to(normal.dtype.element_ty)
    keep(normal + first * D, rows, columns, height, D, unit)
    if HAS_NEXT:
        wide = 3 * P
        for start in range(0, wide, BC):
            part = start + tl.arange(0, BC)
            value = tl.dot(unit, tl.trans(matrix(next_qkv + vector * wide, part, columns, wide, D)))
            keep(projected + first * wide, rows, part, height, wide, value)


@triton.jit
def finish_gradient_kernel(
    come, x, above, next_qkv, next_gain, inner, middle, gain, up, down, out,
    half, to_inner, to_middle, to_half, to_attended, next_sums, up_sums, sums,
    height, length, last, tiles, room,
    W: tl.constexpr, D: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
    FINAL: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Back into a layer's output, through its feed-forward block, its norm and attention's projection."""
    seed, block, blocks = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.num_programs(0)
    columns, own = tl.arange(0, BD), seed * room + block
    first, vector = seed * height, seed * D
    # mostly one tile: what is hoisted out of the loop would only fill registers
    for tile in tl.range(block, tiles, blocks, disable_licm=True):
        rows = tile * BR + tl.arange(0, BR)
        result = come_back(
            come, x, above, next_qkv, next_gain, next_sums + own * 3 * D, seed, rows, columns,
            height, length, last, W, D, P, FINAL, BR, BD, BC,
        )  # fmt: skip
        values = matrix(middle + first * D, rows, columns, height, D)
        short = result.to(half.dtype.element_ty)
        keep(half + first * D, rows, columns, height, D, short)
        found = tl.zeros([BR, BD], tl.float32)
        for start in range(0, F, BC):
            part = start + tl.arange(0, BC)
            back = tl.dot(short, matrix(down + vector * F, columns, part, D, F))
            back = tl.where(matrix(inner + first * F, rows, part, height, F) > 0, back, 0.0)
            back = back.to(short.dtype)
            keep(to_inner + first * F, rows, part, height, F, back)
            gather(up_sums + own * F + part, back.to(tl.float32), part < F)
            found += tl.dot(back, matrix(up + seed * F * D, part, columns, F, D))
        place = sums + own * 3 * D
        result = norm_back(found, values, result, rows, columns, height, W, D, gain + vector, place)
        keep(to_middle + first * D, rows, columns, height, D, result)
        short = result.to(short.dtype)
        keep(to_half + first * D, rows, columns, height, D, short)
        for start in range(0, P, BC):
            part = start + tl.arange(0, BC)
            back = tl.dot(short, matrix(out + vector * P, columns, part, D, P))
            keep(to_attended + first * P, rows, part, height, P, back)


@triton.jit
def begin_gradient_kernel(
    come, x, above, qkv, gain, to_x, sums, height, length, last, tiles, room,
    W: tl.constexpr, D: tl.constexpr, P: tl.constexpr,
    BR: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Back into the first layer's input."""
    seed, block, blocks = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.num_programs(0)
    columns, own = tl.arange(0, BD), seed * room + block
    for tile in tl.range(block, tiles, blocks, disable_licm=True):
        rows = tile * BR + tl.arange(0, BR)
        result = come_back(
            come, x, above, qkv, gain, sums + own * 3 * D, seed, rows, columns,
            height, length, last, W, D, P, False, BR, BD, BC,
        )  # fmt: skip
        keep(to_x + seed * height * D, rows, columns, height, D, result)
