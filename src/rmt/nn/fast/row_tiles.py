"""The kernels of `rmt.nn.fast.rowwise`: a program takes some rows of one seed; its sums stay its own."""

# S seeds · N rows · D width · BR, BD rows and columns of a tile

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def moments(x, inside, width):
    """Mean and one over the deviation of rows over their columns."""
    mean = tl.sum(x, 1) / width
    centred = tl.where(inside, x - mean[:, None], 0.0)
    return mean, tl.rsqrt(tl.sum(centred * centred, 1) / width + 1e-5)


@triton.jit
def units(x, mean, scale, inside):
    """Rows with mean 0 and variance 1, zero outside."""
    return tl.where(inside, (x - mean[:, None]) * scale[:, None], 0.0)


@triton.jit
def back_through_norm(come, unit, scale, gain, width):
    """What comes back through a layer norm with these units and this gain."""
    back = come * gain[None, :]
    level, slope = tl.sum(back, 1) / width, tl.sum(back * unit, 1) / width
    return (back - level[:, None] - unit * slope[:, None]) * scale[:, None]


@triton.jit
def norm_kernel(
    x, bias, gain, move, carried, normal, means, scales, rows, width, padded,
    HAS_BIAS: tl.constexpr, CARRIES: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """normal = the layer norm of x, carried = x + bias; and the moments of x."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    column, exists = tl.arange(0, BD), row < rows
    real = column < width
    wide = exists[:, None] & (column < padded)[None, :]
    place = (seed * rows + row)[:, None] * padded + column[None, :]
    value = tl.load(x + place, mask=wide, other=0.0).to(tl.float32)
    mean, scale = moments(value, real[None, :], width)
    gains = tl.load(gain + seed * padded + column, mask=real, other=0.0)
    shifts = tl.load(move + seed * padded + column, mask=real, other=0.0)
    unit = units(value, mean, scale, real[None, :])
    tl.store(normal + place, unit * gains[None, :] + shifts[None, :], mask=wide)
    tl.store(means + seed * rows + row, mean, mask=exists)
    tl.store(scales + seed * rows + row, scale, mask=exists)
    if CARRIES:
        if HAS_BIAS:
            value += tl.load(bias + seed * padded + column, mask=real, other=0.0)[None, :]
        tl.store(carried + place, value, mask=wide)


@triton.jit
def norm_gradient_kernel(
    gradient, x, means, scales, gain, above, to_x, to_half, sums, rows, width, padded,
    HAS_ABOVE: tl.constexpr, TWICE: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """to_x = above + what comes back through a layer norm of x; sums of gain's, shift's and x's gradient."""
    seed, block, blocks = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, BD)
    real = column < width
    gains = tl.load(gain + seed * padded + column, mask=real, other=0.0)
    own = sums + ((seed * blocks + block) * 3) * padded + column
    to_gain = tl.load(own, mask=real, other=0.0)
    to_shift = tl.load(own + padded, mask=real, other=0.0)
    to_bias = tl.load(own + 2 * padded, mask=real, other=0.0)
    for first in tl.range(block * BR, rows, blocks * BR, num_stages=3):
        row = first + tl.arange(0, BR)
        exists, flat = row < rows, seed * rows + row
        wide = exists[:, None] & (column < padded)[None, :]
        place = flat[:, None] * padded + column[None, :]
        come = tl.load(gradient + place, mask=wide, other=0.0).to(tl.float32)
        value = tl.load(x + place, mask=wide, other=0.0).to(tl.float32)
        mean = tl.load(means + flat, mask=exists, other=0.0)
        scale = tl.load(scales + flat, mask=exists, other=0.0)
        unit = units(value, mean, scale, real[None, :])
        back = back_through_norm(come, unit, scale, gains, width)
        if HAS_ABOVE:
            back += tl.load(above + place, mask=wide, other=0.0).to(tl.float32)
        back = tl.where(real[None, :], back, 0.0)
        to_gain += tl.sum(come * unit, 0)
        to_shift += tl.sum(come, 0)
        to_bias += tl.sum(back, 0)
        tl.store(to_x + place, back, mask=wide)
        if TWICE:
            tl.store(to_half + place, back, mask=wide)
    tl.store(own, to_gain, mask=real)
    tl.store(own + padded, to_shift, mask=real)
    tl.store(own + 2 * padded, to_bias, mask=real)


@triton.jit
def relu_kernel(inner, bias, rows, width, BR: tl.constexpr, BD: tl.constexpr):
    """inner = max(0, inner + bias), in place."""
    seed = tl.program_id(2).to(tl.int64)
    row, column = tl.program_id(0) * BR + tl.arange(0, BR), tl.program_id(1) * BD + tl.arange(0, BD)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = inner + (seed * rows + row)[:, None] * width + column[None, :]
    offset = tl.load(bias + seed * width + column, mask=column < width, other=0.0)
    value = tl.load(place, mask=inside, other=0.0).to(tl.float32) + offset[None, :].to(tl.float32)
    tl.store(place, tl.maximum(value, 0.0), mask=inside)


@triton.jit
def relu_gradient_kernel(gradient, inner, sums, rows, width, BR: tl.constexpr, BD: tl.constexpr):
    """The gradient where inner > 0, in place, and its sums over rows."""
    seed, block, blocks = tl.program_id(2).to(tl.int64), tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * BD + tl.arange(0, BD)
    own = sums + (seed * blocks + block) * width + column
    found = tl.load(own, mask=column < width, other=0.0)
    for first in range(block * BR, rows, blocks * BR):
        row = first + tl.arange(0, BR)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        place = (seed * rows + row)[:, None] * width + column[None, :]
        come = tl.load(gradient + place, mask=inside, other=0.0)
        come = tl.where(tl.load(inner + place, mask=inside, other=0.0) > 0, come, 0.0)
        tl.store(gradient + place, come, mask=inside)
        found += tl.sum(come.to(tl.float32), 0)
    tl.store(own, found, mask=column < width)


@triton.jit
def turn_kernel(
    x, cosine, sine, sign, rows, length, row_stride, HALF: tl.constexpr, BR: tl.constexpr, BH: tl.constexpr
):
    """Rotate the pairs (x_t, x_{t + HALF}) of every head by the angle of its row, in place."""
    row, number = tl.program_id(0) * BR + tl.arange(0, BR), tl.program_id(1)
    column = tl.arange(0, BH)
    inside = (row < rows)[:, None] & (column < HALF)[None, :]
    angle = (row % length)[:, None] * HALF + column[None, :]
    place = x + row.to(tl.int64)[:, None] * row_stride + number * (2 * HALF) + column[None, :]
    first = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(place + HALF, mask=inside, other=0.0).to(tl.float32)
    across = tl.load(cosine + angle, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(sine + angle, mask=inside, other=0.0).to(tl.float32) * sign
    tl.store(place, first * across - second * up, mask=inside)
    tl.store(place + HALF, second * across + first * up, mask=inside)


@triton.jit
def ask_kernel(
    query, biases, to_content, to_position, rows, row_stride, heads, padded, scale, seeds,
    BR: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """query + content (S, N, H, E) and scale · (query + position) (H, S, N, E) of one head."""
    seed, number = (tl.program_id(2) // heads).to(tl.int64), tl.program_id(2) % heads
    row, column = tl.program_id(0) * BR + tl.arange(0, BR), tl.arange(0, BE)
    real = column < padded
    inside = (row < rows)[:, None] & real[None, :]
    flat = seed * rows + row
    vector = biases + (seed * heads + number) * padded + column
    asked = tl.load(
        query + flat[:, None] * row_stride + number * padded + column[None, :], mask=inside, other=0.0
    ).to(tl.float32)
    first = asked + tl.load(vector, mask=real, other=0.0).to(tl.float32)[None, :]
    second = asked + tl.load(vector + seeds * heads * padded, mask=real, other=0.0).to(tl.float32)[None, :]
    tl.store(to_content + (flat[:, None] * heads + number) * padded + column[None, :], first, mask=inside)
    place = (number * seeds * rows + flat)[:, None] * padded + column[None, :]
    tl.store(to_position + place, second * scale, mask=inside)


@triton.jit
def ask_gradient_kernel(
    to_query, to_position, sums, rows, row_stride, heads, padded, scale, seeds,
    BR: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Add scale · to_position (H, S, N, E) to the query's gradient, in place; sums of both over rows."""
    seed, number = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    block, blocks, column = tl.program_id(0), tl.num_programs(0), tl.arange(0, BE)
    real = column < padded
    own = sums + (((seed * blocks + block) * 2) * heads + number) * padded + column
    to_content = tl.load(own, mask=real, other=0.0)
    to_place = tl.load(own + heads * padded, mask=real, other=0.0)
    for start in range(block * BR, rows, blocks * BR):
        row = start + tl.arange(0, BR)
        inside = (row < rows)[:, None] & real[None, :]
        flat = seed * rows + row
        place = to_query + flat[:, None] * row_stride + number * padded + column[None, :]
        first = tl.load(place, mask=inside, other=0.0).to(tl.float32)
        other = (number * seeds * rows + flat)[:, None] * padded + column[None, :]
        second = tl.load(to_position + other, mask=inside, other=0.0).to(tl.float32) * scale
        tl.store(place, first + second, mask=inside)
        to_content += tl.sum(first, 0)
        to_place += tl.sum(second, 0)
    tl.store(own, to_content, mask=real)
    tl.store(own + heads * padded, to_place, mask=real)


@triton.jit
def shift_kernel(scores, limits, found, rows, length, columns, room, BR: tl.constexpr, BK: tl.constexpr):
    """found[i, j] = scores[i, length-1-i + j] where query i sees key j, zero elsewhere."""
    row, column = tl.program_id(0) * BR + tl.arange(0, BR), tl.program_id(1) * BK + tl.arange(0, BK)
    place, start = row % length, row.to(tl.int64)
    limit = tl.load(limits + place, mask=row < rows, other=0)
    first = scores + start * columns + length - 1 - place
    value = tl.load(first[:, None] + column[None, :], mask=column[None, :] < limit[:, None], other=0.0)
    inside = (row < rows)[:, None] & (column < room)[None, :]
    tl.store((found + start * room)[:, None] + column[None, :], value, mask=inside)


@triton.jit
def shift_gradient_kernel(
    found, limits, scores, rows, length, columns, room, BR: tl.constexpr, BW: tl.constexpr
):
    """scores[i, length-1-i + j] = found[i, j] where query i sees key j, zero elsewhere."""
    row, column = tl.program_id(0) * BR + tl.arange(0, BR), tl.program_id(1) * BW + tl.arange(0, BW)
    place, start = row % length, row.to(tl.int64)
    limit = tl.load(limits + place, mask=row < rows, other=0)
    key = column[None, :] - (length - 1 - place)[:, None]
    seen = (key >= 0) & (key < limit[:, None])
    value = tl.load((found + start * room)[:, None] + key, mask=seen, other=0.0)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store((scores + start * columns)[:, None] + column[None, :], value, mask=inside)
