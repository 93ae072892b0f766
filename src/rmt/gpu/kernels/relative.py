"""Relative positions around attention in tiles: queries with biases; scores moved from distances to keys.

Between the two stands a product: position (H · S, B · T, E) times the projected distances (H · S, W, E).
"""

# S seeds · B batch · N = S·B segments · T queries · K keys · H heads · E head width · W distances
# BLOCK_R, BLOCK_E rows and columns of a tile

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmt.gpu.heads import BiasedQueries, Seen
from rmt.gpu.kernels.strided import strided
from rmt.gpu.tiles import TILES, block, padded


def biased_queries(query: Tensor, biases: Tensor, scale: float) -> BiasedQueries:
    """query + content (N, T, H, E), and scale · (query + position) (H, N, T, E), from biases (2, S, H, E)."""
    (batch, length, heads, width), seeds = query.shape, biases.shape[1]
    content, position = query.new_empty(query.shape), query.new_empty(heads, batch, length, width)
    rows, tile = batch // seeds * length, TILES["biased_queries"]["rows"]
    with torch.cuda.device_of(query):
        biased_queries_kernel[(triton.cdiv(rows, tile), heads, seeds)](
            strided(query), biases, content, position, rows, length, width, scale,
            BLOCK_R=tile, BLOCK_E=block(width),
        )  # fmt: skip
    return BiasedQueries(content, position)


def biased_queries_gradient(to_query: Tensor, to_position: Tensor, sums: Tensor, scale: float) -> None:
    """Add scale · `to_position` (H, N, T, E) to the gradient of query + content (N, T, H, E), in place.

    To `sums` (S, blocks, 2, H, E) the gradients of content and position are added, each block by one program.
    """
    (batch, length, heads, width), (seeds, blocks) = to_query.shape, sums.shape[:2]
    with torch.cuda.device_of(to_query):
        biased_queries_gradient_kernel[(blocks, heads, seeds)](
            strided(to_query), to_position, sums, batch // seeds * length, length, width, scale,
            BLOCK_R=TILES["biased_queries_gradient"]["rows"], BLOCK_E=block(width),
        )  # fmt: skip


def aligned(scores: Tensor, seen: Seen) -> Tensor:
    """Scores of distances (H, N, T, W) where their keys are, (H, N, T, K padded): zero where none is seen."""
    heads, batch, length, columns = scores.shape
    keys, tile = padded(seen.keys), TILES["aligned"]
    result = scores.new_empty(heads, batch, length, keys)
    grid = (heads * batch, triton.cdiv(length, tile["rows"]), triton.cdiv(keys, tile["columns"]))
    with torch.cuda.device_of(scores):
        aligned_kernel[grid](
            scores, seen, result, batch, length, columns, keys,
            BLOCK_R=tile["rows"], BLOCK_K=tile["columns"],
        )  # fmt: skip
    return result


def aligned_gradient(to_aligned: Tensor, columns: int, seen: Seen) -> Tensor:
    """The gradient of scores (H, N, T, W = columns) from that of `aligned`: zero where no key is seen."""
    heads, batch, length, keys = to_aligned.shape
    result, tile = to_aligned.new_empty(heads, batch, length, columns), TILES["aligned"]
    grid = (heads * batch, triton.cdiv(length, tile["rows"]), triton.cdiv(columns, tile["columns"]))
    with torch.cuda.device_of(to_aligned):
        aligned_gradient_kernel[grid](
            to_aligned, seen, result, batch, length, columns, keys,
            BLOCK_R=tile["rows"], BLOCK_W=tile["columns"],
        )  # fmt: skip
    return result


@triton.jit
def head_rows(x, seed, head, row, rows, length):
    """Where rows of a seed begin in a tensor (N, T, H, E) of any strides."""
    segment = seed * (rows // length) + row // length
    return x.pointer + segment * x.segment + row % length * x.row + head * x.head


@triton.jit
def biased_queries_kernel(
    query, biases, content, position, rows, length, width, scale,
    BLOCK_R: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """Rows of one head of one seed."""
    head, seed = tl.program_id(1), tl.program_id(2).to(tl.int64)
    heads, seeds = tl.num_programs(1), tl.num_programs(2)
    row, column = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_E)
    real, flat = column < width, seed * rows + row
    inside = (row < rows)[:, None] & real[None, :]
    start = head_rows(query, seed, head, row, rows, length)
    q = tl.load(start[:, None] + column[None, :], mask=inside, other=0.0).to(tl.float32)
    bias = biases + (seed * heads + head) * width + column
    content_bias = tl.load(bias, mask=real, other=0.0).to(tl.float32)
    position_bias = tl.load(bias + seeds * heads * width, mask=real, other=0.0).to(tl.float32)
    contents = content + (flat * heads + head)[:, None] * width + column[None, :]
    tl.store(contents, q + content_bias[None, :], mask=inside)
    positions = position + (head * seeds * rows + flat)[:, None] * width + column[None, :]
    tl.store(positions, (q + position_bias[None, :]) * scale, mask=inside)


@triton.jit
def biased_queries_gradient_kernel(
    to_query, to_position, sums, rows, length, width, scale, BLOCK_R: tl.constexpr, BLOCK_E: tl.constexpr
):
    """Every so-many-th tile of rows of one head of one seed."""
    block, head, seed = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    blocks, heads, seeds = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    column = tl.arange(0, BLOCK_E)
    real = column < width
    to_content_bias = sums + (((seed * blocks + block) * 2) * heads + head) * width + column
    to_position_bias = to_content_bias + heads * width
    content_sum = tl.load(to_content_bias, mask=real, other=0.0)
    position_sum = tl.load(to_position_bias, mask=real, other=0.0)
    for start in range(block * BLOCK_R, rows, blocks * BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        inside = (row < rows)[:, None] & real[None, :]
        queries = head_rows(to_query, seed, head, row, rows, length)[:, None] + column[None, :]
        dq_content = tl.load(queries, mask=inside, other=0.0).to(tl.float32)
        positions = to_position + (head * seeds * rows + seed * rows + row)[:, None] * width + column[None, :]
        dq_position = tl.load(positions, mask=inside, other=0.0).to(tl.float32) * scale
        tl.store(queries, dq_content + dq_position, mask=inside)
        content_sum += tl.sum(dq_content, 0)
        position_sum += tl.sum(dq_position, 0)
    tl.store(to_content_bias, content_sum, mask=real)
    tl.store(to_position_bias, position_sum, mask=real)


@triton.jit
def visible(seen, query, key, batch, length):
    """Whether queries see keys (queries, keys), in the head of a segment that this program has."""
    exists = query < length
    result = (key >= 0) & (key < tl.load(seen.stop + query, mask=exists, other=0)[:, None])
    if seen.first is not None:
        result &= key >= tl.load(seen.first + query, mask=exists, other=0)[:, None]
    if seen.missing is not None:
        result &= key >= tl.load(seen.missing + tl.program_id(0) % batch)
    return result


@triton.jit
def aligned_kernel(
    scores, seen, result, batch, length, columns, keys, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr
):
    """result[i, j] = scores[i, length-1-i + j] where query i sees key j, zero elsewhere."""
    query = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    key = (tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K))[None, :]
    row = tl.program_id(0).to(tl.int64) * length + query
    start = scores + row * columns + length - 1 - query
    value = tl.load(start[:, None] + key, mask=visible(seen, query, key, batch, length), other=0.0)
    inside = (query < length)[:, None] & (key < keys)
    tl.store((result + row * keys)[:, None] + key, value, mask=inside)


@triton.jit
def aligned_gradient_kernel(
    to_aligned, seen, result, batch, length, columns, keys, BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr
):
    """result[i, length-1-i + j] = to_aligned[i, j] where query i sees key j, zero elsewhere."""
    query = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    distance = (tl.program_id(2) * BLOCK_W + tl.arange(0, BLOCK_W))[None, :]
    row = tl.program_id(0).to(tl.int64) * length + query
    key = distance - (length - 1 - query)[:, None]
    seen_key = visible(seen, query, key, batch, length)
    value = tl.load((to_aligned + row * keys)[:, None] + key, mask=seen_key, other=0.0)
    inside = (query < length)[:, None] & (distance < columns)
    tl.store((result + row * columns)[:, None] + distance, value, mask=inside)
