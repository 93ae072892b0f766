"""What stands between the products of a layer, row by row: layer norms, dropout, ReLU.

A program takes some rows of one seed. Sums over rows gather in blocks, each of which one program adds to.
"""

# S seeds · N rows of a seed · D width, padded · F inner width · BLOCK_R, BLOCK_D rows and columns of a tile

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmt.gpu.dropout import SEGMENT_STEP, Drop
from rmt.gpu.kernels.dropout import dropped, kernel_drop, site_keys
from rmt.gpu.norms import Branch, Norm, Normed
from rmt.gpu.tiles import TILES


def norm(x: Tensor, norm: Norm, normal: Tensor, drop: Drop | None = None) -> Normed:
    """The layer norm of dropout(x), rows (S, N, D), written to `normal`."""
    if drop is None:
        return launch_norm(x, None, norm, normal)
    return launch_norm(None, Branch(x, None, drop), norm, normal)


def add_norm(residual: Tensor, branch: Branch, norm: Norm, normal: Tensor) -> Normed:
    """The layer norm of residual + dropout(branch), written to `normal`."""
    return launch_norm(residual, branch, norm, normal)


def launch_norm(x: Tensor | None, branch: Branch | None, norm: Norm, normal: Tensor) -> Normed:
    """The layer norm of x, of a branch, or of both."""
    added, bias, drop = branch or (None, None, None)
    like = added if x is None else x
    assert like is not None
    seeds, rows, width = like.shape
    total = like if branch is None else torch.empty_like(like)
    moments = like.new_empty(2, seeds, rows, dtype=norm.gain.dtype)
    columns = triton.next_power_of_2(width)
    height = max(1, TILES["norm"]["elements"] // columns)
    norm_kernel[(triton.cdiv(rows, height), seeds)](
        x, added, bias, kernel_drop(drop), norm.gain, norm.shift, total, normal, *moments,
        rows, norm.width, width,
        BLOCK_R=height, BLOCK_D=columns, num_warps=TILES["norm"]["warps"],
    )  # fmt: skip
    return Normed(total, normal, moments)


def norm_gradient(
    gradient: Tensor, to_residual: Tensor | None, normed: Normed, norm: Norm, drop: Drop | None
) -> tuple[Tensor, Tensor]:
    """The gradient of what a norm was taken of, and that of the branch in it, for products.

    `gradient` is (S, N, D), or rows in groups with others between, (S, B, R, D). `to_residual` is that of
    the residual, which goes on from before the norm, or post-norm's from behind it. To `norm.sums` go the
    gradients of gain and shift, and of the branch's bias.
    """
    assert normed.moments is not None
    seeds, rows, width = normed.total.shape
    to_total = torch.empty_like(normed.total)
    is_same = drop is None and norm.dtype == to_total.dtype
    to_branch = to_total if is_same else torch.empty_like(to_total, dtype=norm.dtype)
    group = gradient.shape[2] if gradient.dim() == 4 else 0
    strides = gradient.stride()[:2] if group else (rows * width, 0)
    columns, table = triton.next_power_of_2(width), TILES["norm_gradient"]
    norm_gradient_kernel[(norm.sums.shape[1], seeds)](
        gradient, to_residual, normed.total, *normed.moments, norm.gain, kernel_drop(drop),
        to_total, None if is_same else to_branch, norm.sums, rows, norm.width, width, *strides, group,
        IS_POST=norm.is_post, BLOCK_R=max(1, min(table["rows"], table["elements"] // columns)),
        BLOCK_D=columns, num_warps=table["warps"] if columns <= 1024 else table["wide_warps"],
    )  # fmt: skip
    return to_total, to_branch


def dropout(rows: Tensor, drop: Drop, segments: int = 1) -> Tensor:
    """Rows (S, N, D) with zeros where the mask says so, the others scaled up.

    Those of several segments in a row, (S, segments, N, D), each have the mask of their own.
    """
    rows = rows.contiguous()
    result, count = torch.empty_like(rows), rows[0].numel() // segments
    size = TILES["dropout"]["elements"]
    grid = (triton.cdiv(count, size), segments, len(rows))
    dropout_kernel[grid](rows, result, kernel_drop(drop), count, STEP=SEGMENT_STEP, BLOCK=size)
    return result


def relu(inner: Tensor, bias: Tensor, drop: Drop | None) -> Tensor:
    """dropout(max(0, inner + bias)), in place; (S, N, F), bias (S, F)."""
    seeds, rows, width = inner.shape
    height, columns = TILES["relu"]["rows"], TILES["relu"]["columns"]
    grid = (triton.cdiv(rows, height), triton.cdiv(width, columns), seeds)
    relu_kernel[grid](inner, bias, kernel_drop(drop), rows, width, BLOCK_R=height, BLOCK_D=columns)
    return inner


def relu_gradient(gradient: Tensor, inner: Tensor, sums: Tensor, scale: float) -> Tensor:
    """scale · gradient where `inner` is positive, in place; to `sums` (S, blocks, F) go sums over rows."""
    seeds, rows, width = inner.shape
    height, columns = TILES["relu_gradient"]["rows"], TILES["relu_gradient"]["columns"]
    grid = (sums.shape[1], triton.cdiv(width, columns), seeds)
    relu_gradient_kernel[grid](gradient, inner, sums, scale, rows, width, BLOCK_R=height, BLOCK_D=columns)
    return gradient


@triton.jit
def moments_of(x, inside, width):
    """Mean and one over the deviation of rows over their columns; 1e-5 is `rmt.gpu.norms.EPSILON`."""
    mean = tl.sum(x, 1) / width
    centred = tl.where(inside, x - mean[:, None], 0.0)
    return mean, tl.rsqrt(tl.sum(centred * centred, 1) / width + 1e-5)


@triton.jit
def units(x, mean, scale, inside):
    """Rows with mean 0 and variance 1, zero outside."""
    return tl.where(inside, (x - mean[:, None]) * scale[:, None], 0.0)


@triton.jit
def back_through_norm(gradient, unit, scale, gain, width):
    """What comes back through a layer norm with these units and this gain."""
    back = gradient * gain[None, :]
    level, slope = tl.sum(back, 1) / width, tl.sum(back * unit, 1) / width
    return (back - level[:, None] - unit * slope[:, None]) * scale[:, None]


@triton.jit
def norm_kernel(
    x, branch, bias, drop, gain, shift, total, normal, means, scales, rows, width, padded,
    BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """total = x + dropout(branch + bias), one of which may be missing; normal = its norm; its moments."""
    seed = tl.program_id(1).to(tl.int64)
    row, column = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_D)
    exists, real = row < rows, column < width
    inside = exists[:, None] & (column < padded)[None, :]
    element = row[:, None] * padded + column[None, :]
    offset = seed * rows * padded + element
    if x is None:
        value = tl.zeros([BLOCK_R, BLOCK_D], tl.float32)
    else:
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
    if branch is not None:
        added = tl.load(branch + offset, mask=inside, other=0.0).to(tl.float32)
        if bias is not None:
            added += tl.load(bias + seed * padded + column, mask=real, other=0.0)[None, :]
        if drop is not None:
            low, high = site_keys(drop.keys, seed, drop.site)
            added = dropped(added, element, low, high, drop.threshold, drop.scale)
        value = (value + added).to(total.dtype.element_ty)
        tl.store(total + offset, value, mask=inside)
        value = value.to(tl.float32)
    mean, scale = moments_of(value, real[None, :], width)
    gains = tl.load(gain + seed * padded + column, mask=real, other=0.0)
    shifts = tl.load(shift + seed * padded + column, mask=real, other=0.0)
    unit = units(value, mean, scale, real[None, :])
    tl.store(normal + offset, unit * gains[None, :] + shifts[None, :], mask=inside)
    tl.store(means + seed * rows + row, mean, mask=exists)
    tl.store(scales + seed * rows + row, scale, mask=exists)


@triton.jit
def norm_gradient_kernel(
    gradient, to_residual, total, means, scales, gain, drop, to_total, to_branch, sums, rows, width, padded,
    seed_stride, group_stride,
    GROUP: tl.constexpr, IS_POST: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Back through a layer norm of total, with what comes back beside it; sums for gain, shift and bias."""
    seed, block, blocks = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, BLOCK_D)
    real = column < width
    gains = tl.load(gain + seed * padded + column, mask=real, other=0.0)
    block_sums = sums + ((seed * blocks + block) * 3) * padded + column
    to_gain = tl.load(block_sums, mask=real, other=0.0)
    to_shift = tl.load(block_sums + padded, mask=real, other=0.0)
    to_bias = tl.load(block_sums + 2 * padded, mask=real, other=0.0)
    if drop is not None:
        low, high = site_keys(drop.keys, seed, drop.site)
    for first in tl.range(block * BLOCK_R, rows, blocks * BLOCK_R, num_stages=3):
        row = (first + tl.arange(0, BLOCK_R)).to(tl.int64)
        exists, flat = row < rows, seed * rows + row
        inside = exists[:, None] & (column < padded)[None, :]
        element = row[:, None] * padded + column[None, :]
        offset = seed * rows * padded + element
        if GROUP:
            source = row // GROUP * group_stride + row % GROUP * padded
            source = seed * seed_stride + source[:, None] + column[None, :]
        else:
            source = offset
        incoming = tl.load(gradient + source, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(total + offset, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(means + flat, mask=exists, other=0.0)
        scale = tl.load(scales + flat, mask=exists, other=0.0)
        if to_residual is not None:
            beside = tl.load(to_residual + offset, mask=inside, other=0.0).to(tl.float32)
            if IS_POST:
                incoming += beside
        unit = units(value, mean, scale, real[None, :])
        back = back_through_norm(incoming, unit, scale, gains, width)
        if to_residual is not None and not IS_POST:
            back += beside
        back = tl.where(real[None, :], back, 0.0)
        tl.store(to_total + offset, back, mask=inside)
        if drop is not None:
            back = dropped(back, element, low, high, drop.threshold, drop.scale)
        if to_branch is not None:
            tl.store(to_branch + offset, back, mask=inside)
        to_gain += tl.sum(incoming * unit, 0)
        to_shift += tl.sum(incoming, 0)
        to_bias += tl.sum(back, 0)
    tl.store(block_sums, to_gain, mask=real)
    tl.store(block_sums + padded, to_shift, mask=real)
    tl.store(block_sums + 2 * padded, to_bias, mask=real)


@triton.jit
def dropout_kernel(rows, result, drop, count, STEP: tl.constexpr, BLOCK: tl.constexpr):
    """result = dropout(rows)."""
    segment, seed = tl.program_id(1), tl.program_id(2).to(tl.int64)
    element = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    low, high = site_keys(drop.keys, seed, drop.site + segment * STEP)
    offset = (seed * tl.num_programs(1) + segment) * count + element
    value = tl.load(rows + offset, mask=element < count, other=0.0).to(tl.float32)
    value = dropped(value, element, low, high, drop.threshold, drop.scale)
    tl.store(result + offset, value, mask=element < count)


@triton.jit
def relu_kernel(inner, bias, drop, rows, width, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr):
    """inner = dropout(max(0, inner + bias)), in place."""
    seed = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    element = row[:, None] * width + column[None, :]
    pointer = inner + seed * rows * width + element
    shift = tl.load(bias + seed * width + column, mask=column < width, other=0.0)
    value = tl.load(pointer, mask=inside, other=0.0).to(tl.float32) + shift[None, :].to(tl.float32)
    value = tl.maximum(value, 0.0)
    if drop is not None:
        low, high = site_keys(drop.keys, seed, drop.site)
        value = dropped(value, element, low, high, drop.threshold, drop.scale)
    tl.store(pointer, value, mask=inside)


@triton.jit
def relu_gradient_kernel(
    gradient, inner, sums, scale, rows, width, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr
):
    """scale · gradient where inner > 0, in place, and its sums over rows."""
    seed, block, blocks = tl.program_id(2).to(tl.int64), tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    block_sums = sums + (seed * blocks + block) * width + column
    total = tl.load(block_sums, mask=column < width, other=0.0)
    for first in range(block * BLOCK_R, rows, blocks * BLOCK_R):
        row = first + tl.arange(0, BLOCK_R)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        offset = (seed * rows + row)[:, None] * width + column[None, :]
        value = tl.load(gradient + offset, mask=inside, other=0.0)
        value = tl.where(tl.load(inner + offset, mask=inside, other=0.0) > 0, value * scale, 0.0)
        tl.store(gradient + offset, value, mask=inside)
        total += tl.sum(value.to(tl.float32), 0)
    tl.store(block_sums, total, mask=column < width)
