"""A narrow layer behind its attention: a program takes some rows of one seed through all that follows.

That is what `rmt.gpu.layers.finish_layer` and `finish_gradient` write as products and `rmt.gpu.kernels.rows`.
Narrow layers are bound by launches, and their weights fit beside a tile of rows.
"""

# S seeds · N rows of a seed · W true width · D width · P = H·E · F inner width; BLOCK_… sizes of a tile

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmt.gpu.dropout import ATTENTION, FEED_FORWARD, INNER, OUTPUT
from rmt.gpu.kernels.dropout import KernelDrop, drop_elements, kernel_drop, words_of
from rmt.gpu.kernels.rows import back_through_norm, moments_of, units
from rmt.gpu.norms import Normed
from rmt.gpu.segment import FusedLayer, LayerGradients, LayerRecord, Slots
from rmt.gpu.tiles import SMALLEST, TILES


class KernelWeights(NamedTuple):
    """The parameters behind attention; `next` ones are the norm and projection that follow the layer."""

    out: Any
    gain: Any
    shift: Any
    up: Any
    up_bias: Any
    down: Any
    down_bias: Any
    next_gain: Any
    next_shift: Any
    next_qkv: Any


class KernelDrops(NamedTuple):
    """The masks of a layer, if it has any."""

    attention: KernelDrop | None
    inner: KernelDrop | None
    feed_forward: KernelDrop | None
    output: KernelDrop | None  # of the backbone, behind the last layer


def weights_of(fused: FusedLayer) -> KernelWeights:
    """The parameters from a layer's attention to the next layer's; behind the last, no projection is used."""
    weights, layer = fused.weights, fused.layer
    here, after = weights.norm(2 * layer + 1), weights.norm(2 * layer + 2)
    next_layer = min(layer + 1, weights.config.layers - 1)
    return KernelWeights(
        weights.out[layer], here.gain, here.shift, weights.up[layer], weights.up_bias[layer],
        weights.down[layer], weights.down_bias[layer], after.gain, after.shift, weights.qkv[next_layer],
    )  # fmt: skip


def drops_of(fused: FusedLayer) -> KernelDrops:
    """The masks of dropout from a layer's attention to the next layer's."""
    drops = [fused.dropout.at(site, fused.layer) for site in (ATTENTION, INNER, FEED_FORWARD)]
    ends = fused.layer + 1 == fused.weights.config.layers
    return KernelDrops(*map(kernel_drop, (*drops, fused.dropout.at(OUTPUT) if ends else None)))


def tile(rows: int, width: int) -> dict[str, int]:
    """A tile and its warps; where rows are few, so are those of a program, for there are many processors."""
    tables = (TILES["fused_layer_few"], TILES["fused_layer_some"])
    table = next((table for table in tables if rows < table["below"]), TILES["fused_layer"])
    columns = max(SMALLEST, triton.next_power_of_2(width))
    warps = table.get("warps", 4)  # of small tiles always four
    return {"BLOCK_R": table["rows"], "BLOCK_D": columns, "BLOCK_C": table["columns"], "num_warps": warps}


def fused_layer(
    residual: Tensor, slots: Slots, normal: Tensor, fused: FusedLayer
) -> tuple[Normed, Normed, Tensor | None]:
    """From what attention gave (`slots.out`) and the residual (S, N, D) to the end of the layer.

    Returns the rows behind attention, those behind the layer, whose norm is written to `normal`, and what the
    next layer projects them to.
    """
    weights, layer = fused.weights, fused.layer
    seeds, rows, width = residual.shape
    middle, total = (residual.new_empty(residual.shape, dtype=weights.residual_dtype) for _ in range(2))
    has_next = layer + 1 < weights.config.layers
    heads = slots.out.right.shape[-1]
    projected = slots.out.right.new_empty(seeds, rows, 3 * heads) if has_next else None
    blocks = tile(seeds * rows, width)
    fused_layer_kernel[(triton.cdiv(rows, blocks["BLOCK_R"]), seeds)](
        slots.out.right, residual, weights_of(fused), drops_of(fused),
        middle, slots.up.right, slots.down.right, total, normal, projected, rows,
        W=weights.config.width, D=width, P=heads, F=weights.inner, IS_POST=weights.is_post,
        **blocks,
    )  # fmt: skip
    return Normed(middle, slots.up.right, None), Normed(total, normal, None), projected


def fused_layer_gradient(
    gradient: Tensor, to_residual: Tensor | None, output: Normed, record: LayerRecord, fused: FusedLayer
) -> LayerGradients:
    """Back from the next layer's projection, or from the last norm, to what attention gave.

    `gradient` is that of the projected rows (S, N, 3 · P), or, without `to_residual` (S, N, D), that of the
    last norm (S, N, D). `output` are the rows behind the layer.
    """
    weights, layer, (seeds, rows, width) = fused.weights, fused.layer, output.total.shape
    heads, inner = record.out.right.shape[-1], record.down.right
    to_down, to_inner = record.down.left(width), record.up.left(weights.inner)
    to_out, to_middle = record.out.left(width), torch.empty_like(record.middle.total)
    to_attended = inner.new_empty(seeds, rows, heads)
    here, after = weights.norm(2 * layer + 1), weights.norm(2 * layer + 2)
    blocks = tile(seeds * rows, width)
    blocks["num_warps"] = max(blocks["num_warps"], blocks["BLOCK_R"] // 8)  # a tall tile fills registers
    tiles, programs = triton.cdiv(rows, blocks["BLOCK_R"]), here.sums.shape[1]
    fused_layer_gradient_kernel[(min(tiles, programs), seeds)](
        gradient, to_residual, output.total, weights_of(fused), drops_of(fused), inner, record.middle.total,
        to_down, to_inner, to_middle, to_out, to_attended, after.sums, weights.up_sums[layer], here.sums,
        rows, tiles, programs,
        W=weights.config.width, D=width, P=heads, F=weights.inner, IS_POST=weights.is_post,
        **blocks,
    )  # fmt: skip
    return LayerGradients(to_down, to_inner, to_middle, to_out, to_attended)


@triton.jit
def load(base, rows, columns, height, stride):
    """Some rows and columns of a matrix, zeros below it and beside it."""
    inside = (rows < height)[:, None] & (columns < stride)[None, :]
    return tl.load(base + rows.to(tl.int64)[:, None] * stride + columns[None, :], mask=inside, other=0.0)


@triton.jit
def store(base, values, rows, columns, height, stride):
    inside = (rows < height)[:, None] & (columns < stride)[None, :]
    tl.store(base + rows.to(tl.int64)[:, None] * stride + columns[None, :], values, mask=inside)


@triton.jit
def add_sums(pointer, values, inside):
    """Add sums over rows where no other program adds."""
    tl.atomic_add(pointer, tl.sum(values, 0), mask=inside, sem="relaxed")


@triton.jit
def start_of(residual, drop):
    """What a branch is summed up on: the residual itself, if nothing is dropped, to save registers."""
    if drop is not None:
        residual = tl.zeros_like(residual)
    return residual


@triton.jit
def end_of(total, residual, drop, words, rows, columns, stride):
    """The residual with the branch, from the sum that `start_of` began."""
    if drop is not None:
        total = residual + drop_elements(total, drop, words, rows, columns, stride)
    return total


@triton.jit
def norm_of(values, rows, columns, height, W, gain, shift):
    """A layer norm of rows."""
    inside = (rows < height)[:, None] & (columns < W)[None, :]
    mean, scale = moments_of(tl.where(inside, values, 0.0), inside, W)
    gains = tl.load(gain + columns, mask=columns < W, other=0.0)
    shifts = tl.load(shift + columns, mask=columns < W, other=0.0)
    return tl.where(inside, units(values, mean, scale, inside) * gains[None, :] + shifts[None, :], 0.0)


@triton.jit
def norm_back(gradient, values, beside, rows, columns, height, W, D, gain, sums, IS_POST: tl.constexpr):
    """Back through a layer norm, `beside` the residual's gradient; gain's and shift's go to `sums`."""
    real = columns < W
    inside = (rows < height)[:, None] & real[None, :]
    gains = tl.load(gain + columns, mask=real, other=0.0)
    mean, scale = moments_of(values, inside, W)
    unit = units(values, mean, scale, inside)
    if IS_POST:
        gradient += beside
    back = back_through_norm(gradient, unit, scale, gains, W)
    add_sums(sums + columns, gradient * unit, real)
    add_sums(sums + D + columns, gradient, real)
    if not IS_POST:
        back += beside
    return tl.where(inside, back, 0.0)


@triton.jit
def fused_layer_kernel(
    attended, residual, weights, drops, middle, middle_normal, inner, total, normal, projected, height,
    W: tl.constexpr, D: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
    IS_POST: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Attention's projection, the residual, a norm, the feed-forward block, the next norm and projection."""
    seed = tl.program_id(1).to(tl.int64)
    rows, columns = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_D)
    row_offset, seed_offset = seed * height, seed * D  # in rows; in elements of vectors of D
    attention_words, inner_words = words_of(drops.attention, seed), words_of(drops.inner, seed)
    down_words, output_words = words_of(drops.feed_forward, seed), words_of(drops.output, seed)
    value = load(residual + row_offset * D, rows, columns, height, D).to(tl.float32)
    summed = start_of(value, drops.attention)
    for start in range(0, P, BLOCK_C):
        part = start + tl.arange(0, BLOCK_C)
        attended_part = load(attended + row_offset * P, rows, part, height, P)
        summed += tl.dot(attended_part, tl.trans(load(weights.out + seed_offset * P, columns, part, D, P)))
    value = end_of(summed, value, drops.attention, attention_words, rows, columns, D)
    store(middle + row_offset * D, value, rows, columns, height, D)
    unit = norm_of(value, rows, columns, height, W, weights.gain + seed_offset, weights.shift + seed_offset)
    cast = unit.to(middle_normal.dtype.element_ty)
    store(middle_normal + row_offset * D, cast, rows, columns, height, D)
    if IS_POST:
        value = unit
    summed = start_of(value, drops.feed_forward)
    for start in range(0, F, BLOCK_C):
        part = start + tl.arange(0, BLOCK_C)
        hidden = tl.dot(cast, tl.trans(load(weights.up + seed * F * D, part, columns, F, D)))
        hidden += tl.load(weights.up_bias + seed * F + part, mask=part < F, other=0.0).to(tl.float32)[None, :]
        hidden = drop_elements(tl.maximum(hidden, 0.0), drops.inner, inner_words, rows, part, F)
        hidden = hidden.to(inner.dtype.element_ty)
        store(inner + row_offset * F, hidden, rows, part, height, F)
        summed += tl.dot(hidden, tl.trans(load(weights.down + seed_offset * F, columns, part, D, F)))
    summed += tl.load(weights.down_bias + seed_offset + columns, mask=columns < W, other=0.0)[None, :]
    value = end_of(summed, value, drops.feed_forward, down_words, rows, columns, D)
    store(total + row_offset * D, value, rows, columns, height, D)
    gain, shift = weights.next_gain + seed_offset, weights.next_shift + seed_offset
    unit = norm_of(value, rows, columns, height, W, gain, shift)
    unit = drop_elements(unit, drops.output, output_words, rows, columns, D)
    unit = unit.to(normal.dtype.element_ty)
    store(normal + row_offset * D, unit, rows, columns, height, D)
    if projected is not None:
        for start in range(0, 3 * P, BLOCK_C):
            part = start + tl.arange(0, BLOCK_C)
            weight = load(weights.next_qkv + seed_offset * 3 * P, part, columns, 3 * P, D)
            store(projected + row_offset * 3 * P, tl.dot(unit, tl.trans(weight)), rows, part, height, 3 * P)


@triton.jit
def fused_layer_gradient_kernel(
    gradient, to_residual, total, weights, drops, inner, middle,
    to_down, to_inner, to_middle, to_out, to_attended, next_sums, up_sums, sums, height, tiles, blocks,
    W: tl.constexpr, D: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
    IS_POST: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Back to the layer's end, through its feed-forward block, its norm and attention's projection.

    Without `to_residual`, the gradient is that of the last norm, else of what the next layer projected.
    """
    seed, program = tl.program_id(1).to(tl.int64), tl.program_id(0)
    columns, block = tl.arange(0, BLOCK_D), seed * blocks + program
    row_offset, seed_offset = seed * height, seed * D  # in rows; in elements of vectors of D
    attention_words, output_words = words_of(drops.attention, seed), words_of(drops.output, seed)
    down_words = words_of(drops.feed_forward, seed)
    # mostly one tile: what is hoisted out of the loop would only fill registers; and where a matrix is one
    # part, all matrices of the next tile, loaded ahead, would need more shared memory than there is
    for tile in tl.range(program, tiles, tl.num_programs(0), num_stages=1, disable_licm=True):
        rows = tile * BLOCK_R + tl.arange(0, BLOCK_R)
        values = load(total + row_offset * D, rows, columns, height, D).to(tl.float32)
        if to_residual is None:
            back = load(gradient + row_offset * D, rows, columns, height, D).to(tl.float32)
            back = drop_elements(back, drops.output, output_words, rows, columns, D)
            beside = tl.zeros([BLOCK_R, BLOCK_D], tl.float32)
        else:
            beside = load(to_residual + row_offset * D, rows, columns, height, D).to(tl.float32)
            back = tl.zeros([BLOCK_R, BLOCK_D], tl.float32)
            for start in range(0, 3 * P, BLOCK_C):
                part = start + tl.arange(0, BLOCK_C)
                heads = load(gradient + row_offset * 3 * P, rows, part, height, 3 * P)
                back += tl.dot(heads, load(weights.next_qkv + seed_offset * 3 * P, part, columns, 3 * P, D))
        block_sums, gain = next_sums + block * 3 * D, weights.next_gain + seed_offset
        to_total = norm_back(back, values, beside, rows, columns, height, W, D, gain, block_sums, IS_POST)
        to_branch = drop_elements(to_total, drops.feed_forward, down_words, rows, columns, D)
        add_sums(block_sums + 2 * D + columns, to_branch, columns < W)
        cast = to_branch.to(to_down.dtype.element_ty)
        store(to_down + row_offset * D, cast, rows, columns, height, D)
        values = load(middle + row_offset * D, rows, columns, height, D).to(tl.float32)
        to_normal = tl.zeros([BLOCK_R, BLOCK_D], tl.float32)
        for start in range(0, F, BLOCK_C):
            part = start + tl.arange(0, BLOCK_C)
            exact = tl.dot(cast, load(weights.down + seed_offset * F, columns, part, D, F))
            if drops.inner is not None:
                exact *= drops.inner.scale
            is_active = load(inner + row_offset * F, rows, part, height, F) > 0
            hidden = tl.where(is_active, exact, 0.0).to(cast.dtype)
            store(to_inner + row_offset * F, hidden, rows, part, height, F)
            add_sums(up_sums + block * F + part, hidden.to(tl.float32), part < F)
            to_normal += tl.dot(hidden, load(weights.up + seed * F * D, part, columns, F, D))
        block_sums, gain = sums + block * 3 * D, weights.gain + seed_offset
        back = norm_back(to_normal, values, to_total, rows, columns, height, W, D, gain, block_sums, IS_POST)
        store(to_middle + row_offset * D, back, rows, columns, height, D)
        back = drop_elements(back, drops.attention, attention_words, rows, columns, D)
        cast = back.to(cast.dtype)
        store(to_out + row_offset * D, cast, rows, columns, height, D)
        for start in range(0, P, BLOCK_C):
            part = start + tl.arange(0, BLOCK_C)
            attended = tl.dot(cast, load(weights.out + seed_offset * P, columns, part, D, P))
            store(to_attended + row_offset * P, attended, rows, part, height, P)
