"""Attention with relative positions, for segments so short that a program takes a whole head at once.

What `rmt.gpu.kernels.relative`, a product for distances and `rmt.gpu.kernels.attention` do one after the
other, in one kernel each way.
"""

# S seeds · B batch · N = S·B segments · T queries · K keys · H heads · E head width · W distances
# BLOCK_R, BLOCK_W, BLOCK_E rows, distances and columns of a tile, BLOCK_W = 2 · BLOCK_R

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmt.gpu.heads import DistanceFactors, RelativeGradients, RelativeHeads
from rmt.gpu.kernels.attention import kernel_heads, lse_offsets, visible
from rmt.gpu.kernels.strided import HeadRows, head_of, load_rows, store_rows, strided
from rmt.gpu.tiles import TILES, block


class KernelPositions(NamedTuple):
    """What relative positions add to heads, as kernels take it."""

    biases: Tensor  # (2, S, H, E)
    distances: Tensor  # (H, S, W, E)
    seeds: int
    batch: int  # segments of a seed
    columns: int  # distances


def fits(keys: int, columns: int, width: int) -> bool:
    """Whether a program can take a head with so many keys, distances and numbers per head.

    A tile may have the table's rows and be as wide, or be shorter and wider; scores of longer ones spill.
    """
    longest, blocks = TILES["short_attention"]["rows"], blocks_for(keys, columns, width)
    return bool(blocks["BLOCK_R"] <= longest and blocks["BLOCK_R"] * blocks["BLOCK_E"] <= longest**2)


def fits_short_attention(relative: RelativeHeads) -> bool:
    """Whether a program can take these heads whole."""
    key = relative.heads.key
    return fits(key.shape[1], relative.distances.shape[1], key.shape[3])


def blocks_for(keys: int, columns: int, width: int) -> dict[str, Any]:
    """A tile that has all keys and all distances."""
    rows, table = block(max(keys, triton.cdiv(columns, 2))), TILES["short_attention"]
    warps = table["warps"] if rows == table["rows"] else table["short_warps"]
    return {"BLOCK_R": rows, "BLOCK_W": 2 * rows, "BLOCK_E": block(width), "num_warps": warps}


def blocks_of(relative: RelativeHeads) -> dict[str, Any]:
    """The tile that these heads need."""
    key = relative.heads.key
    return blocks_for(key.shape[1], relative.distances.shape[1], key.shape[3])


def kernel_positions(relative: RelativeHeads) -> KernelPositions:
    """Position biases and distances with their sizes."""
    (_, biases, distances), seeds = relative, relative.biases.shape[1]
    batch = len(relative.heads.query) // seeds
    return KernelPositions(biases, distances, seeds, batch, distances.shape[1])


def short_attention(relative: RelativeHeads, output: Tensor) -> Tensor:
    """Write the attention of heads to `output` (N, T, H, E); returns lse (N, H, T), in float32."""
    batch, queries, count, _ = relative.heads.query.shape
    lse = output.new_empty(batch, count, queries, dtype=torch.float32)
    packed = kernel_heads(relative.heads), kernel_positions(relative)
    with torch.cuda.device_of(output):
        short_attention_kernel[(batch * count,)](*packed, strided(output), lse, **blocks_of(relative))
    return lse


def short_attention_gradient(
    relative: RelativeHeads, to_output: Tensor, lse: Tensor, gradients: RelativeGradients
) -> DistanceFactors:
    """Write the gradients of queries, keys and values, add those of the biases; returns the distances'."""
    query, (groups, columns, width) = relative.heads.query, relative.distances.shape
    batch, queries, count, _ = query.shape
    to_scores = query.new_empty(count, batch, queries, columns)
    position = query.new_empty(count, batch, queries, width)
    packed = kernel_heads(relative.heads), kernel_positions(relative)
    with torch.cuda.device_of(query):
        short_gradient_kernel[(batch * count,)](
            *packed, strided(to_output), lse, *map(strided, gradients[:3]),
            gradients.biases, to_scores, position, **blocks_of(relative),
        )  # fmt: skip
    return DistanceFactors(to_scores.view(groups, -1, columns), position.view(groups, -1, width))


@triton.jit
def biased(heads, positions, index, q, BLOCK_E: tl.constexpr):
    """Queries as they ask for contents, and, scaled, for distances."""
    column, sizes = tl.arange(0, BLOCK_E), heads.sizes
    seed, head = index // sizes.heads // positions.batch, index % sizes.heads
    biases = positions.biases + (seed * sizes.heads + head) * sizes.width + column
    content = tl.load(biases, mask=column < sizes.width, other=0.0)
    biases += positions.seeds * sizes.heads * sizes.width
    position = tl.load(biases, mask=column < sizes.width, other=0.0)
    by_content = q.to(tl.float32) + content[None, :]
    by_position = (q.to(tl.float32) + position[None, :]) * heads.scale
    return by_content.to(q.dtype), by_position.to(q.dtype)


@triton.jit
def load_distances(heads, positions, index, BLOCK_W: tl.constexpr, BLOCK_E: tl.constexpr):
    """The projected distances of a head, (BLOCK_W, BLOCK_E)."""
    seed, head = index // heads.sizes.heads // positions.batch, index % heads.sizes.heads
    start = (head * positions.seeds + seed) * positions.columns * heads.sizes.width
    distances = HeadRows(positions.distances + start, heads.sizes.width)
    return load_rows(distances, tl.arange(0, BLOCK_W), positions.columns, heads.sizes.width, BLOCK_E)


@triton.jit
def relative_scores(heads, index, content, position, k, distances, BLOCK_R: tl.constexpr):
    """Scores, -inf where a query does not see a key; row i and column j are T-1-i + j apart."""
    row, column, sizes = tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_R), heads.sizes
    inside = (row < sizes.queries)[:, None] & (column < sizes.keys)[None, :]
    distance = tl.where(inside, sizes.queries - 1 - row[:, None] + column[None, :], 0)
    scores = tl.dot(content, tl.trans(k)) * heads.scale
    scores += tl.gather(tl.dot(position, tl.trans(distances)), distance, 1)
    return tl.where(visible(heads, index, row[:, None], column[None, :]), scores, float("-inf"))


@triton.jit
def short_attention_kernel(
    heads, positions, output, lse, BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_E: tl.constexpr
):
    """One head of one segment: its output and lse."""
    index, row, sizes = tl.program_id(0), tl.arange(0, BLOCK_R), heads.sizes
    q = load_rows(head_of(heads.query, index, sizes.heads), row, sizes.queries, sizes.width, BLOCK_E)
    k = load_rows(head_of(heads.key, index, sizes.heads), row, sizes.keys, sizes.width, BLOCK_E)
    v = load_rows(head_of(heads.value, index, sizes.heads), row, sizes.keys, sizes.width, BLOCK_E)
    distances = load_distances(heads, positions, index, BLOCK_W, BLOCK_E)
    content, position = biased(heads, positions, index, q, BLOCK_E)
    scores = relative_scores(heads, index, content, position, k, distances, BLOCK_R)
    top = tl.where(row < sizes.queries, tl.max(scores, 1), 0.0)
    p = tl.exp(scores - top[:, None])
    total = tl.where(row < sizes.queries, tl.sum(p, 1), 1.0)
    o = tl.dot((p / total[:, None]).to(v.dtype), v)
    store_rows(head_of(output, index, sizes.heads), o, row, sizes.queries, sizes.width, BLOCK_E)
    tl.store(lse + lse_offsets(heads, index, row), top + tl.log(total), mask=row < sizes.queries)


@triton.jit
def aligned_with_distances(ds, queries, keys, BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr):
    """The gradient of scores of distances (BLOCK_R, BLOCK_W) from that of scores of keys."""
    row, distance = tl.arange(0, BLOCK_R)[:, None], tl.arange(0, BLOCK_W)[None, :]
    key = distance - (queries - 1 - row)
    exists = (row < queries) & (key >= 0) & (key < keys)
    return tl.where(exists, tl.gather(ds, tl.where(exists, key, 0), 1), 0.0)


@triton.jit
def short_gradient_kernel(
    heads, positions, to_output, lse, to_query, to_key, to_value, to_biases, to_scores, scaled_query,
    BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """All gradients of one head of one segment; that of distances is left to a product."""
    index, sizes = tl.program_id(0), heads.sizes
    row, column = tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_E)
    segment, head = index // sizes.heads, index % sizes.heads
    q = load_rows(head_of(heads.query, index, sizes.heads), row, sizes.queries, sizes.width, BLOCK_E)
    k = load_rows(head_of(heads.key, index, sizes.heads), row, sizes.keys, sizes.width, BLOCK_E)
    v = load_rows(head_of(heads.value, index, sizes.heads), row, sizes.keys, sizes.width, BLOCK_E)
    do = load_rows(head_of(to_output, index, sizes.heads), row, sizes.queries, sizes.width, BLOCK_E)
    distances = load_distances(heads, positions, index, BLOCK_W, BLOCK_E)
    to_content = to_biases + (segment * 2 * sizes.heads + head) * sizes.width + column  # (N, 2, H, E)
    to_position = to_content + sizes.heads * sizes.width
    content_sum = tl.load(to_content, mask=column < sizes.width, other=0.0)
    position_sum = tl.load(to_position, mask=column < sizes.width, other=0.0)
    content, position = biased(heads, positions, index, q, BLOCK_E)
    scores = relative_scores(heads, index, content, position, k, distances, BLOCK_R)
    row_lse = tl.load(lse + lse_offsets(heads, index, row), mask=row < sizes.queries, other=0.0)
    p, dp = tl.exp(scores - row_lse[:, None]), tl.dot(do, tl.trans(v))
    ds = p * (dp - tl.sum(p * dp, 1)[:, None])
    ds_distances = aligned_with_distances(ds, sizes.queries, sizes.keys, BLOCK_R, BLOCK_W).to(q.dtype)
    ds = ds.to(q.dtype)
    dq_content, dq_position = tl.dot(ds, k) * heads.scale, tl.dot(ds_distances, distances) * heads.scale
    tl.store(to_content, content_sum + tl.sum(dq_content, 0), mask=column < sizes.width)
    tl.store(to_position, position_sum + tl.sum(dq_position, 0), mask=column < sizes.width)
    dq, dk = dq_content + dq_position, tl.dot(tl.trans(ds), content) * heads.scale
    store_rows(head_of(to_query, index, sizes.heads), dq, row, sizes.queries, sizes.width, BLOCK_E)
    store_rows(head_of(to_key, index, sizes.heads), dk, row, sizes.keys, sizes.width, BLOCK_E)
    dv = tl.dot(tl.trans(p.to(do.dtype)), do)
    store_rows(head_of(to_value, index, sizes.heads), dv, row, sizes.keys, sizes.width, BLOCK_E)
    start = (head * positions.seeds * positions.batch + segment).to(tl.int64) * sizes.queries  # (H, N, T, …)
    to_scores = HeadRows(to_scores + start * positions.columns, positions.columns)
    store_rows(to_scores, ds_distances, row, sizes.queries, positions.columns, BLOCK_W)
    scaled_query = HeadRows(scaled_query + start * sizes.width, sizes.width)
    store_rows(scaled_query, position, row, sizes.queries, sizes.width, BLOCK_E)
