"""The kernels of `rmt.nn.fast.narrow`: a program takes some rows of one seed through a layer's products."""

# S seeds · N rows · D width · P = H·E heads side by side · F inner width · BR, BD, BC sizes of a tile

from __future__ import annotations

import triton
import triton.language as tl

from rmt.nn.fast.row_tiles import normalised


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
def norm_of(values, rows, columns, height, width, gain, move):
    """A layer norm of rows."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    unit, _ = normalised(tl.where(inside, values, 0.0), inside, width)
    gains = tl.load(gain + columns, mask=columns < width, other=0.0)
    moves = tl.load(move + columns, mask=columns < width, other=0.0)
    return tl.where(inside, unit * gains[None, :] + moves[None, :], 0.0)


@triton.jit
def back_through_norm(come, values, rows, columns, height, width, gain, above):
    """What comes back through a layer norm, and `above`; and its norm's unit."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    unit, scale = normalised(tl.where(inside, values, 0.0), inside, width)
    back = come * tl.load(gain + columns, mask=columns < width, other=0.0)[None, :]
    level, slope = tl.sum(back, 1) / width, tl.sum(back * unit, 1) / width
    back = (back - level[:, None] - unit * slope[:, None]) * scale[:, None]
    return tl.where(inside, back + above, 0.0), unit


@triton.jit
def finish_kernel(
    attended, x, out, gain, move, up, up_bias, down, down_bias, next_gain, next_move,
    middle, second, inner, total, normal, height, width, padded, heads, hidden,
    BR: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Behind attention: its projection, the residual, the norm, the feed-forward block, the next norm."""
    seed = tl.program_id(1).to(tl.int64)
    rows, columns = tl.program_id(0) * BR + tl.arange(0, BR), tl.arange(0, BD)
    first = seed * height
    vector = seed * padded
    found = matrix(x + first * padded, rows, columns, height, padded)
    for start in range(0, heads, BC):
        part = start + tl.arange(0, BC)
        seen = matrix(attended + first * heads, rows, part, height, heads)
        found += tl.dot(seen, tl.trans(matrix(out + vector * heads, columns, part, padded, heads)))
    keep(middle + first * padded, rows, columns, height, padded, found)
    unit = norm_of(found, rows, columns, height, width, gain + vector, move + vector)
    unit = unit.to(second.dtype.element_ty)
    keep(second + first * padded, rows, columns, height, padded, unit)
    for start in range(0, hidden, BC):
        part = start + tl.arange(0, BC)
        value = tl.dot(unit, tl.trans(matrix(up + seed * hidden * padded, part, columns, hidden, padded)))
        value += tl.load(up_bias + seed * hidden + part, mask=part < hidden, other=0.0).to(tl.float32)[
            None, :
        ]
        value = tl.maximum(value, 0.0).to(inner.dtype.element_ty)
        keep(inner + first * hidden, rows, part, height, hidden, value)
        found += tl.dot(value, tl.trans(matrix(down + vector * hidden, columns, part, padded, hidden)))
    found += tl.load(down_bias + vector + columns, mask=columns < width, other=0.0)[None, :]
    keep(total + first * padded, rows, columns, height, padded, found)
    unit = norm_of(found, rows, columns, height, width, next_gain + vector, next_move + vector)
    keep(normal + first * padded, rows, columns, height, padded, unit)


@triton.jit
def finish_gradient_kernel(
    above, half, inner, middle, gain, up, down, out, to_inner, to_middle, to_half, to_attended, up_sums, sums,
    height, width, padded, heads, hidden, tiles, up_room, room,
    BR: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Back through the feed-forward block, its norm and the projection of attention."""
    seed, block, blocks = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, BD)
    first, vector, real = seed * height, seed * padded, tl.arange(0, BD) < width
    own = sums + ((seed * room + block) * 3) * padded + columns
    to_gain = tl.load(own, mask=real, other=0.0)
    to_shift = tl.load(own + padded, mask=real, other=0.0)
    for tile in range(block, tiles, blocks):
        rows = tile * BR + tl.arange(0, BR)
        come = matrix(half + first * padded, rows, columns, height, padded)
        values = matrix(middle + first * padded, rows, columns, height, padded)
        upper = matrix(above + first * padded, rows, columns, height, padded)
        found = tl.zeros([BR, BD], tl.float32)
        for start in range(0, hidden, BC):
            part = start + tl.arange(0, BC)
            back = tl.dot(come, matrix(down + vector * hidden, columns, part, padded, hidden))
            back = tl.where(matrix(inner + first * hidden, rows, part, height, hidden) > 0, back, 0.0)
            back = back.to(come.dtype)
            keep(to_inner + first * hidden, rows, part, height, hidden, back)
            place = up_sums + (seed * up_room + block) * hidden + part  # nobody else adds to it
            tl.atomic_add(place, tl.sum(back.to(tl.float32), 0), mask=part < hidden, sem="relaxed")
            found += tl.dot(back, matrix(up + seed * hidden * padded, part, columns, hidden, padded))
        result, unit = back_through_norm(found, values, rows, columns, height, width, gain + vector, upper)
        to_gain += tl.sum(found * unit, 0)
        to_shift += tl.sum(found, 0)
        keep(to_middle + first * padded, rows, columns, height, padded, result)
        come = result.to(come.dtype)
        keep(to_half + first * padded, rows, columns, height, padded, come)
        for start in range(0, heads, BC):
            part = start + tl.arange(0, BC)
            back = tl.dot(come, matrix(out + vector * heads, columns, part, padded, heads))
            keep(to_attended + first * heads, rows, part, height, heads, back)
    tl.store(own, to_gain, mask=real)
    tl.store(own + padded, to_shift, mask=real)
