"""The kernels of `rmt.nn.kernel`: a tile of queries looks at all keys, a tile of keys at all queries."""

# B batch · H heads · Q queries · K keys · E head width · BQ, BK, BE rows, keys, columns of a tile

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def real(rows, count):
    """Which rows there are."""
    return (rows >= 0) & (rows < count)


@triton.jit
def last_rows(queries, BQ: tl.constexpr):
    """The rows of a tile of queries; tiles end with the last: the first lacks rows, and sees least."""
    return queries - (tl.num_programs(1) - tl.program_id(1)) * BQ + tl.arange(0, BQ)


@triton.jit
def visible(
    scores, bias, mask, rows, columns, queries, keys, room, bias_row, mask_row,
    HAS_BIAS: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    """Scores with their bias, -inf where a query does not see a key; rows and columns may change places.

    `mask` tells of every pair, or, if it is bounded, how many keys a query sees, from the first. A bias may
    have `room` for more keys than there are, so that it is read in pieces of 16.
    """
    if HAS_BIAS:
        inside = real(rows, queries) & (columns < room)
        scores += tl.load(bias + rows * bias_row + columns, mask=inside, other=0.0).to(tl.float32)
    if BOUNDED:
        seen = columns < tl.load(mask + rows, mask=real(rows, queries), other=0)
    else:
        inside = real(rows, queries) & (columns < keys)
        seen = tl.load(mask + rows * mask_row + columns, mask=inside, other=0) != 0
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def head(base, of_batch, of_head, number, heads):
    """Where the rows of one head of one batch row begin."""
    return base + (number // heads) * of_batch + (number % heads) * of_head


@triton.jit
def tile(base, row_stride, rows, count, width, BE: tl.constexpr):
    """Rows of a matrix with contiguous columns, (rows, BE), zeros outside of it."""
    column = tl.arange(0, BE)
    inside = real(rows, count)[:, None] & (column < width)[None, :]
    return tl.load(base + rows[:, None] * row_stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def put(base, row_stride, rows, count, width, values, BE: tl.constexpr):
    """Write rows of a matrix."""
    column = tl.arange(0, BE)
    inside = real(rows, count)[:, None] & (column < width)[None, :]
    tl.store(base + rows[:, None] * row_stride + column[None, :], values, mask=inside)


@triton.jit
def looked_back(
    known, kept, asked, come, product, weights, bias, mask, rows, columns,
    queries, keys, room, bias_row, mask_row, scale, HAS_BIAS: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    """Weights of a tile of keys and one of queries (BK, BQ), and the gradient of their scores."""
    scores = visible(
        tl.dot(known, tl.trans(asked)) * scale, bias, mask, rows[None, :], columns[:, None],
        queries, keys, room, bias_row, mask_row, HAS_BIAS, BOUNDED,
    )  # fmt: skip
    share = tl.exp(scores - weights[None, :])
    change = share * (tl.dot(kept, tl.trans(come)) - product[None, :])
    return share.to(come.dtype), change.to(asked.dtype)


@triton.jit
def forward_kernel(
    query, key, value, bias, mask, bounds, output, weight,
    query_b, query_h, query_r, key_b, key_h, key_r, value_b, value_h, value_r,
    bias_b, bias_h, bias_r, mask_b, mask_r, output_b, output_h, output_r,
    heads, queries, keys, room, width, scale,
    HAS_BIAS: tl.constexpr, BOUNDED: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head: its output, and the logarithm of the sum of its weights."""
    number = tl.program_id(0).to(tl.int64)
    query = head(query, query_b, query_h, number, heads)
    key = head(key, key_b, key_h, number, heads)
    value = head(value, value_b, value_h, number, heads)
    bias = head(bias, bias_b, bias_h, number, heads)
    mask = head(mask, mask_b, 0, number, heads)
    rows = last_rows(queries, BQ)
    asked = tile(query, query_r, rows, queries, width, BE)
    top = tl.full([BQ], float("-inf"), tl.float32)
    total = tl.zeros([BQ], tl.float32)
    accumulated = tl.zeros([BQ, BE], tl.float32)
    stop = tl.load(bounds + tl.program_id(1)) if BOUNDED else keys
    for first in range(0, stop, BK):
        columns = first + tl.arange(0, BK)
        known = tile(key, key_r, columns, keys, width, BE)
        rest = tile(value, value_r, columns, keys, width, BE)
        scores = visible(
            tl.dot(asked, tl.trans(known)) * scale, bias, mask, rows[:, None], columns[None, :],
            queries, keys, room, bias_r, mask_r, HAS_BIAS, BOUNDED,
        )  # fmt: skip
        higher = tl.maximum(top, tl.max(scores, 1))
        level = tl.where(higher == float("-inf"), 0.0, higher)
        share, kept = tl.exp(scores - level[:, None]), tl.exp(top - level)
        accumulated = accumulated * kept[:, None] + tl.dot(share.to(rest.dtype), rest)
        total, top = total * kept + tl.sum(share, 1), higher
    total = tl.where(total == 0.0, 1.0, total)
    output = head(output, output_b, output_h, number, heads)
    put(output, output_r, rows, queries, width, accumulated / total[:, None], BE)
    tl.store(weight + number * queries + rows, top + tl.log(total), mask=real(rows, queries))


@triton.jit
def query_gradient_kernel(
    query, key, value, bias, mask, bounds, output, weight, gradient, inner, to_query, to_bias,
    query_b, query_h, query_r, key_b, key_h, key_r, value_b, value_h, value_r,
    bias_b, bias_h, bias_r, mask_b, mask_r, output_b, output_h, output_r, gradient_b, gradient_h, gradient_r,
    to_query_b, to_query_h, to_query_r, to_bias_b, to_bias_h, to_bias_r,
    heads, queries, keys, room, width, scale,
    HAS_BIAS: tl.constexpr, BOUNDED: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One tile of queries: their gradient, their bias's, and ⟨gradient, output⟩ for the keys' kernel."""
    number = tl.program_id(0).to(tl.int64)
    query = head(query, query_b, query_h, number, heads)
    key = head(key, key_b, key_h, number, heads)
    value = head(value, value_b, value_h, number, heads)
    bias = head(bias, bias_b, bias_h, number, heads)
    mask = head(mask, mask_b, 0, number, heads)
    rows = last_rows(queries, BQ)
    asked = tile(query, query_r, rows, queries, width, BE)
    come = tile(head(gradient, gradient_b, gradient_h, number, heads), gradient_r, rows, queries, width, BE)
    outputs = tile(head(output, output_b, output_h, number, heads), output_r, rows, queries, width, BE)
    product = tl.sum(come.to(tl.float32) * outputs.to(tl.float32), 1)
    tl.store(inner + number * queries + rows, product, mask=real(rows, queries))
    weights = tl.load(weight + number * queries + rows, mask=real(rows, queries), other=0.0)
    accumulated = tl.zeros([BQ, BE], tl.float32)
    stop = tl.load(bounds + tl.program_id(1)) if BOUNDED else keys
    for first in range(0, stop, BK):
        columns = first + tl.arange(0, BK)
        known = tile(key, key_r, columns, keys, width, BE)
        scores = visible(
            tl.dot(asked, tl.trans(known)) * scale, bias, mask, rows[:, None], columns[None, :],
            queries, keys, room, bias_r, mask_r, HAS_BIAS, BOUNDED,
        )  # fmt: skip
        share = tl.exp(scores - weights[:, None])
        back = tl.dot(come, tl.trans(tile(value, value_r, columns, keys, width, BE)))
        change = (share * (back - product[:, None])).to(asked.dtype)
        if HAS_BIAS:
            inside = real(rows, queries)[:, None] & (columns < room)[None, :]
            pointers = head(to_bias, to_bias_b, to_bias_h, number, heads) + rows[:, None] * to_bias_r
            tl.store(pointers + columns[None, :], change, mask=inside)
        accumulated += tl.dot(change, known)
    to_query = head(to_query, to_query_b, to_query_h, number, heads)
    put(to_query, to_query_r, rows, queries, width, accumulated * scale, BE)


@triton.jit
def key_gradient_kernel(
    query, key, value, bias, mask, bounds, weight, gradient, inner, to_key, to_value,
    query_b, query_h, query_r, key_b, key_h, key_r, value_b, value_h, value_r,
    bias_b, bias_h, bias_r, mask_b, mask_r, gradient_b, gradient_h, gradient_r,
    to_key_b, to_key_h, to_key_r, to_value_b, to_value_h, to_value_r,
    heads, queries, keys, room, width, scale,
    HAS_BIAS: tl.constexpr, BOUNDED: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One tile of keys of one head: their gradient and that of their values."""
    number = tl.program_id(0).to(tl.int64)
    query = head(query, query_b, query_h, number, heads)
    key = head(key, key_b, key_h, number, heads)
    value = head(value, value_b, value_h, number, heads)
    bias = head(bias, bias_b, bias_h, number, heads)
    mask = head(mask, mask_b, 0, number, heads)
    gradient = head(gradient, gradient_b, gradient_h, number, heads)
    columns = tl.program_id(1) * BK + tl.arange(0, BK)
    known = tile(key, key_r, columns, keys, width, BE)
    kept = tile(value, value_r, columns, keys, width, BE)
    found_key, found_value = tl.zeros([BK, BE], tl.float32), tl.zeros([BK, BE], tl.float32)
    start = tl.load(bounds + tl.program_id(1)) if BOUNDED else 0
    for first in range(start, queries, BQ):
        rows = first + tl.arange(0, BQ)
        asked = tile(query, query_r, rows, queries, width, BE)
        come = tile(gradient, gradient_r, rows, queries, width, BE)
        weights = tl.load(weight + number * queries + rows, mask=rows < queries, other=0.0)
        product = tl.load(inner + number * queries + rows, mask=rows < queries, other=0.0)
        share, change = looked_back(
            known, kept, asked, come, product, weights, bias, mask, rows, columns,
            queries, keys, room, bias_r, mask_r, scale, HAS_BIAS, BOUNDED,
        )  # fmt: skip
        found_value += tl.dot(share, come)
        found_key += tl.dot(change, asked)
    to_key = head(to_key, to_key_b, to_key_h, number, heads)
    put(to_key, to_key_r, columns, keys, width, found_key * scale, BE)
    to_value = head(to_value, to_value_b, to_value_h, number, heads)
    put(to_value, to_value_r, columns, keys, width, found_value, BE)


@triton.jit
def gradient_kernel(
    query, key, value, bias, mask, output, weight, gradient,
    to_query, to_key, to_value, to_bias,
    query_b, query_h, query_r, key_b, key_h, key_r, value_b, value_h, value_r,
    bias_b, bias_h, bias_r, mask_b, mask_r, output_b, output_h, output_r, gradient_b, gradient_h, gradient_r,
    to_query_b, to_query_h, to_query_r, to_key_b, to_key_h, to_key_r, to_value_b, to_value_h, to_value_r,
    to_bias_b, to_bias_h, to_bias_r,
    heads, queries, keys, room, width, scale,
    HAS_BIAS: tl.constexpr, BOUNDED: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One head whose queries and keys are one tile: all gradients at once."""
    number = tl.program_id(0).to(tl.int64)
    rows, columns = tl.arange(0, BQ), tl.arange(0, BK)
    asked = tile(head(query, query_b, query_h, number, heads), query_r, rows, queries, width, BE)
    known = tile(head(key, key_b, key_h, number, heads), key_r, columns, keys, width, BE)
    kept = tile(head(value, value_b, value_h, number, heads), value_r, columns, keys, width, BE)
    come = tile(head(gradient, gradient_b, gradient_h, number, heads), gradient_r, rows, queries, width, BE)
    outputs = tile(head(output, output_b, output_h, number, heads), output_r, rows, queries, width, BE)
    product = tl.sum(come.to(tl.float32) * outputs.to(tl.float32), 1)
    weights = tl.load(weight + number * queries + rows, mask=rows < queries, other=0.0)
    bias = head(bias, bias_b, bias_h, number, heads)
    mask = head(mask, mask_b, 0, number, heads)
    share, change = looked_back(
        known, kept, asked, come, product, weights, bias, mask, rows, columns,
        queries, keys, room, bias_r, mask_r, scale, HAS_BIAS, BOUNDED,
    )  # fmt: skip
    if HAS_BIAS:
        inside = (rows < queries)[None, :] & (columns < room)[:, None]
        pointers = head(to_bias, to_bias_b, to_bias_h, number, heads) + rows[None, :] * to_bias_r
        tl.store(pointers + columns[:, None], change, mask=inside)
    to_query = head(to_query, to_query_b, to_query_h, number, heads)
    to_key = head(to_key, to_key_b, to_key_h, number, heads)
    to_value = head(to_value, to_value_b, to_value_h, number, heads)
    put(to_query, to_query_r, rows, queries, width, tl.dot(tl.trans(change), known) * scale, BE)
    put(to_key, to_key_r, columns, keys, width, tl.dot(change, asked) * scale, BE)
    put(to_value, to_value_r, columns, keys, width, tl.dot(share, come), BE)
