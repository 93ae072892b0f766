"""The kernels of `rmt.nn.fast.near`: a program takes one head of one segment, positions and all."""

# T queries · R keys · W distances · E head width · BR, BW, BE sizes of a tile, BW = 2 · BR

from __future__ import annotations

import triton
import triton.language as tl

from rmt.nn.tiles import head, put, tile


@triton.jit
def asked_of(query, biases, number, heads, segments, seeds, width, scale, BE: tl.constexpr):
    """Queries as they ask for contents, and for distances."""
    column = tl.arange(0, BE)
    place = biases + ((number // heads // segments) * heads + number % heads) * width + column
    content = tl.load(place, mask=column < width, other=0.0)
    position = tl.load(place + seeds * heads * width, mask=column < width, other=0.0)
    value = query.to(tl.float32)
    first, second = value + content[None, :], (value + position[None, :]) * scale
    return first.to(query.dtype), second.to(query.dtype)


@triton.jit
def scores_of(content, position, key, distance, limits, queries, keys, scale, BR: tl.constexpr):
    """Scores, -inf where a query does not see a key; row i and column j are T-1-i + j apart."""
    row, column = tl.arange(0, BR), tl.arange(0, BR)
    inside = (row < queries)[:, None] & (column < keys)[None, :]
    far = tl.where(inside, queries - 1 - row[:, None] + column[None, :], 0)
    scores = tl.dot(content, tl.trans(key)) * scale
    scores += tl.gather(tl.dot(position, tl.trans(distance)), far, 1)
    limit = tl.load(limits + row, mask=row < queries, other=0)
    return tl.where(column[None, :] < limit[:, None], scores, float("-inf"))


@triton.jit
def near_kernel(
    query, key, value, biases, distances, limits, output, weight,
    of_batch, of_row, of_head, output_b, output_r,
    heads, segments, seeds, queries, keys, columns, width, scale,
    BR: tl.constexpr, BW: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """What one head of one segment finds, and the logarithm of the sum of its weights."""
    number = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, BR)
    asked = tile(head(query, of_batch, of_head, number, heads), of_row, row, queries, width, BE)
    known = tile(head(key, of_batch, of_head, number, heads), of_row, row, keys, width, BE)
    kept = tile(head(value, of_batch, of_head, number, heads), of_row, row, keys, width, BE)
    own = distances + ((number % heads) * seeds + number // heads // segments) * columns * width
    distance = tile(own, width, tl.arange(0, BW), columns, width, BE)
    content, position = asked_of(asked, biases, number, heads, segments, seeds, width, scale, BE)
    scores = scores_of(content, position, known, distance, limits, queries, keys, scale, BR)
    top = tl.where(row < queries, tl.max(scores, 1), 0.0)
    share = tl.exp(scores - top[:, None])
    total = tl.where(row < queries, tl.sum(share, 1), 1.0)
    found = tl.dot((share / total[:, None]).to(kept.dtype), kept)
    put(head(output, output_b, width, number, heads), output_r, row, queries, width, found, BE)
    tl.store(weight + number * queries + row, top + tl.log(total), mask=row < queries)


@triton.jit
def near_gradient_kernel(
    query, key, value, biases, distances, limits, weight, gradient,
    to_query, to_key, to_value, to_scores, asking, sums,
    of_batch, of_row, of_head, gradient_b, gradient_r,
    heads, segments, seeds, queries, keys, columns, width, scale,
    BR: tl.constexpr, BW: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """All gradients of one head of one segment; those of distances are left to a product."""
    number = tl.program_id(0).to(tl.int64)
    row, wide, column = tl.arange(0, BR), tl.arange(0, BW), tl.arange(0, BE)
    asked = tile(head(query, of_batch, of_head, number, heads), of_row, row, queries, width, BE)
    known = tile(head(key, of_batch, of_head, number, heads), of_row, row, keys, width, BE)
    kept = tile(head(value, of_batch, of_head, number, heads), of_row, row, keys, width, BE)
    come = tile(head(gradient, gradient_b, width, number, heads), gradient_r, row, queries, width, BE)
    own = distances + ((number % heads) * seeds + number // heads // segments) * columns * width
    distance = tile(own, width, wide, columns, width, BE)
    place = sums + (number // heads) * 2 * heads * width + (number % heads) * width + column
    to_content = tl.load(place, mask=column < width, other=0.0)
    to_position = tl.load(place + heads * width, mask=column < width, other=0.0)
    content, position = asked_of(asked, biases, number, heads, segments, seeds, width, scale, BE)
    scores = scores_of(content, position, known, distance, limits, queries, keys, scale, BR)
    weights = tl.load(weight + number * queries + row, mask=row < queries, other=0.0)
    share = tl.exp(scores - weights[:, None])
    back = tl.dot(come, tl.trans(kept))
    change = share * (back - tl.sum(share * back, 1)[:, None])
    near = wide[None, :] - (queries - 1 - row[:, None])  # the key at a distance
    exists = (row < queries)[:, None] & (near >= 0) & (near < keys)
    far = tl.where(exists, tl.gather(change, tl.where(exists, near, 0), 1), 0.0).to(asked.dtype)
    change = change.to(asked.dtype)
    first, second = tl.dot(change, known) * scale, tl.dot(far, distance) * scale
    tl.store(place, to_content + tl.sum(first, 0), mask=column < width)
    tl.store(place + heads * width, to_position + tl.sum(second, 0), mask=column < width)
    put(head(to_query, of_batch, of_head, number, heads), of_row, row, queries, width, first + second, BE)
    found = tl.dot(tl.trans(change), content) * scale
    put(head(to_key, of_batch, of_head, number, heads), of_row, row, keys, width, found, BE)
    found = tl.dot(tl.trans(share.to(come.dtype)), come)
    put(head(to_value, of_batch, of_head, number, heads), of_row, row, keys, width, found, BE)
    base = ((number % heads) * seeds * segments + number // heads) * queries  # (H, S · B, T, …)
    put(to_scores + base * columns, columns, row, queries, columns, far, BW)
    put(asking + base * width, width, row, queries, width, position, BE)
