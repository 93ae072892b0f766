"""Attention of segments in tiles: any interval of keys, any bias, and the bias's gradient, in one pass each.

Library kernels know no gradient of a bias, or are slow where rows are few. As in FlashAttention, no
probability is ever written: the forward pass keeps the logarithm of each row's sum (lse), and the gradient
makes them again from it. Tiles of keys that no query of a tile sees are skipped, at both ends.
"""

# N segments · T queries · K keys · H heads · E head width · BLOCK_Q, BLOCK_K, BLOCK_E sizes of a tile
# p probabilities · do, dq, dk, dv, ds gradients of output, query, key, value and scores · delta = Σ do · o

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmt.gpu.heads import HeadGradients, Heads, Seen
from rmt.gpu.kernels.strided import Strided, exist, head_of, load_rows, store_rows, strided
from rmt.gpu.tiles import TILES, block


class HeadSizes(NamedTuple):
    """How many there are; a bias may have columns for more keys, so that it is loaded in whole pieces."""

    heads: int
    queries: int
    keys: int
    bias_keys: int
    width: int


class KernelHeads(NamedTuple):
    """`Heads` as kernels take them."""

    query: Strided
    key: Strided
    value: Strided
    bias: Strided | None
    seen: Seen
    sizes: HeadSizes
    scale: float


def attention(heads: Heads, output: Tensor) -> Tensor:
    """Write the attention of heads to `output` (N, T, H, E); returns lse (N, H, T), in float32."""
    batch, queries, count, _ = heads.query.shape
    lse = heads.query.new_empty(batch, count, queries, dtype=torch.float32)
    blocks = blocks_for(heads)
    with torch.cuda.device_of(output):
        attention_kernel[(batch * count, triton.cdiv(queries, blocks["BLOCK_Q"]))](
            kernel_heads(heads), strided(output), lse, **blocks
        )
    return lse


def attention_gradient(
    heads: Heads, to_output: Tensor, output: Tensor, lse: Tensor, gradients: HeadGradients
) -> None:
    """Write the gradients of query, key, value and bias, if there is one, from that of the output."""
    (batch, queries, count, _), keys = heads.query.shape, heads.key.shape[1]
    blocks, packed = blocks_for(heads), kernel_heads(heads)
    incoming, outputs = strided(to_output), strided(output)
    to_query, to_key, to_value = map(strided, gradients[:3])
    to_bias = strided_bias(gradients.bias)
    with torch.cuda.device_of(output):
        if max(queries, keys) <= blocks["BLOCK_Q"]:
            blocks["BLOCK_K"] = blocks["BLOCK_Q"]
            whole_gradient_kernel[(batch * count,)](
                packed, incoming, outputs, lse, to_query, to_key, to_value, to_bias, **blocks
            )
            return
        delta = torch.empty_like(lse)
        query_gradient_kernel[(batch * count, triton.cdiv(queries, blocks["BLOCK_Q"]))](
            packed, incoming, outputs, lse, delta, to_query, to_bias, **blocks
        )
        turned = {**blocks, "BLOCK_Q": blocks["BLOCK_K"], "BLOCK_K": blocks["BLOCK_Q"]}
        key_gradient_kernel[(batch * count, triton.cdiv(keys, turned["BLOCK_K"]))](
            packed, incoming, lse, delta, to_key, to_value,
            num_stages=TILES["attention"]["key_gradient_stages"], **turned,
        )  # fmt: skip


def blocks_for(heads: Heads) -> dict[str, Any]:
    """A single tile where all keys fit, else the table's; fewer warps where there is less to share."""
    table, rows = TILES["attention"], heads.seen.rows
    warps = table["warps"] if rows == table["queries"] else table["short_warps"]
    columns, width = min(table["keys"], rows), block(heads.key.shape[3])
    return {"BLOCK_Q": rows, "BLOCK_K": columns, "BLOCK_E": width, "num_warps": warps}


def kernel_heads(heads: Heads) -> KernelHeads:
    """Heads with their strides and sizes."""
    _, queries, count, width = heads.query.shape
    keys = heads.key.shape[1]
    sizes = HeadSizes(count, queries, keys, keys if heads.bias is None else heads.bias.shape[3], width)
    query, key, value = map(strided, heads[:3])
    return KernelHeads(query, key, value, strided_bias(heads.bias), heads.seen, sizes, heads.scale)


def strided_bias(bias: Tensor | None) -> Strided | None:
    """A bias (N, H, T, K), or none."""
    return None if bias is None else strided(bias.transpose(1, 2))


@triton.jit
def last_rows(queries, BLOCK_Q: tl.constexpr):
    """The queries of this program's tile; tiles end with the last query, so that the first, which sees
    fewest keys, lacks rows."""
    return queries - (tl.num_programs(1) - tl.program_id(1)) * BLOCK_Q + tl.arange(0, BLOCK_Q)


@triton.jit
def lse_offsets(heads, index, rows):
    """Where the rows of a head are in lse and delta, (N, H, T)."""
    return index.to(tl.int64) * heads.sizes.queries + rows


@triton.jit
def visible(heads, index, rows, columns):
    """Whether queries see keys; rows are laid against columns, or columns against rows."""
    exists = exist(rows, heads.sizes.queries)
    seen = columns < tl.load(heads.seen.stop + rows, mask=exists, other=0)
    if heads.seen.first is not None:
        seen &= columns >= tl.load(heads.seen.first + rows, mask=exists, other=0)
    if heads.seen.missing is not None:
        seen &= columns >= tl.load(heads.seen.missing + index // heads.sizes.heads)
    return seen


@triton.jit
def key_range(heads, index, BLOCK_K: tl.constexpr):
    """Where the keys that this program's queries see begin, at a multiple of BLOCK_K, and where they end."""
    start = tl.load(heads.seen.key_starts + tl.program_id(1))
    if heads.seen.missing is not None:
        start = tl.maximum(start, tl.load(heads.seen.missing + index // heads.sizes.heads))
    return start // BLOCK_K * BLOCK_K, tl.load(heads.seen.key_stops + tl.program_id(1))


@triton.jit
def query_range(heads, index, BLOCK_K: tl.constexpr):
    """Where the queries that see this program's keys begin and end."""
    stop = tl.load(heads.seen.query_stops + tl.program_id(1))
    if heads.seen.missing is not None:
        missing = tl.load(heads.seen.missing + index // heads.sizes.heads)
        stop = tl.where(missing < (tl.program_id(1) + 1) * BLOCK_K, stop, 0)
    return tl.load(heads.seen.query_starts + tl.program_id(1)), stop


@triton.jit
def masked(heads, index, scores, rows, columns):
    """Scores with their bias, -inf where a query does not see a key; rows and columns may change places."""
    if heads.bias is not None:
        bias = head_of(heads.bias, index, heads.sizes.heads)
        inside = exist(rows, heads.sizes.queries) & (columns < heads.sizes.bias_keys)
        scores += tl.load(bias.pointer + rows * bias.row + columns, mask=inside, other=0.0).to(tl.float32)
    return tl.where(visible(heads, index, rows, columns), scores, float("-inf"))


@triton.jit
def attention_kernel(heads, output, lse, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_E: tl.constexpr):
    """A tile of queries of one head: their output and lse."""
    index, sizes = tl.program_id(0), heads.sizes
    key, value = head_of(heads.key, index, sizes.heads), head_of(heads.value, index, sizes.heads)
    rows = last_rows(sizes.queries, BLOCK_Q)
    first, stop = key_range(heads, index, BLOCK_K)
    q = load_rows(head_of(heads.query, index, sizes.heads), rows, sizes.queries, sizes.width, BLOCK_E)
    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    o = tl.zeros([BLOCK_Q, BLOCK_E], tl.float32)
    for start in range(first, stop, BLOCK_K):
        columns = start + tl.arange(0, BLOCK_K)
        k = load_rows(key, columns, sizes.keys, sizes.width, BLOCK_E)
        v = load_rows(value, columns, sizes.keys, sizes.width, BLOCK_E)
        scores = tl.dot(q, tl.trans(k)) * heads.scale
        scores = masked(heads, index, scores, rows[:, None], columns[None, :])
        higher = tl.maximum(top, tl.max(scores, 1))
        level = tl.where(higher == float("-inf"), 0.0, higher)  # a row that has seen nothing so far
        p, rescale = tl.exp(scores - level[:, None]), tl.exp(top - level)
        o = o * rescale[:, None] + tl.dot(p.to(v.dtype), v)
        total, top = total * rescale + tl.sum(p, 1), higher
    total = tl.where(total == 0.0, 1.0, total)
    output = head_of(output, index, sizes.heads)
    store_rows(output, o / total[:, None], rows, sizes.queries, sizes.width, BLOCK_E)
    tl.store(lse + lse_offsets(heads, index, rows), top + tl.log(total), mask=exist(rows, sizes.queries))


@triton.jit
def query_gradient_kernel(
    heads, to_output, output, lse, delta, to_query, to_bias,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """A tile of queries of one head: dq, the gradient of their bias, and delta for the kernel of the keys."""
    index, sizes = tl.program_id(0), heads.sizes
    key, value = head_of(heads.key, index, sizes.heads), head_of(heads.value, index, sizes.heads)
    rows = last_rows(sizes.queries, BLOCK_Q)
    exists, offsets = exist(rows, sizes.queries), lse_offsets(heads, index, rows)
    first, stop = key_range(heads, index, BLOCK_K)
    q = load_rows(head_of(heads.query, index, sizes.heads), rows, sizes.queries, sizes.width, BLOCK_E)
    do = load_rows(head_of(to_output, index, sizes.heads), rows, sizes.queries, sizes.width, BLOCK_E)
    o = load_rows(head_of(output, index, sizes.heads), rows, sizes.queries, sizes.width, BLOCK_E)
    row_delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(delta + offsets, row_delta, mask=exists)
    row_lse = tl.load(lse + offsets, mask=exists, other=0.0)
    dq = tl.zeros([BLOCK_Q, BLOCK_E], tl.float32)
    for start in range(first, stop, BLOCK_K):
        columns = start + tl.arange(0, BLOCK_K)
        k = load_rows(key, columns, sizes.keys, sizes.width, BLOCK_E)
        scores = tl.dot(q, tl.trans(k)) * heads.scale
        scores = masked(heads, index, scores, rows[:, None], columns[None, :])
        p = tl.exp(scores - row_lse[:, None])
        dp = tl.dot(do, tl.trans(load_rows(value, columns, sizes.keys, sizes.width, BLOCK_E)))
        ds = (p * (dp - row_delta[:, None])).to(q.dtype)
        if to_bias is not None:
            target = head_of(to_bias, index, sizes.heads)
            inside = exists[:, None] & (columns < sizes.bias_keys)[None, :]
            tl.store(target.pointer + rows[:, None] * target.row + columns[None, :], ds, mask=inside)
        dq += tl.dot(ds, k)
    to_query = head_of(to_query, index, sizes.heads)
    store_rows(to_query, dq * heads.scale, rows, sizes.queries, sizes.width, BLOCK_E)


@triton.jit
def probabilities_and_gradient(heads, index, q, k, v, do, lse, delta, rows, columns):
    """p and ds of a tile of keys and a tile of queries, (BLOCK_K, BLOCK_Q)."""
    scores = tl.dot(k, tl.trans(q)) * heads.scale
    scores = masked(heads, index, scores, rows[None, :], columns[:, None])
    p = tl.exp(scores - lse[None, :])
    ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
    return p.to(do.dtype), ds.to(q.dtype)


@triton.jit
def key_gradient_kernel(
    heads, to_output, lse, delta, to_key, to_value,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """A tile of keys of one head: dk and dv."""
    index, sizes = tl.program_id(0), heads.sizes
    query, to_output = head_of(heads.query, index, sizes.heads), head_of(to_output, index, sizes.heads)
    columns = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    k = load_rows(head_of(heads.key, index, sizes.heads), columns, sizes.keys, sizes.width, BLOCK_E)
    v = load_rows(head_of(heads.value, index, sizes.heads), columns, sizes.keys, sizes.width, BLOCK_E)
    dk, dv = tl.zeros([BLOCK_K, BLOCK_E], tl.float32), tl.zeros([BLOCK_K, BLOCK_E], tl.float32)
    first, stop = query_range(heads, index, BLOCK_K)
    for start in range(first, stop, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)
        q = load_rows(query, rows, sizes.queries, sizes.width, BLOCK_E)
        do = load_rows(to_output, rows, sizes.queries, sizes.width, BLOCK_E)
        offsets = lse_offsets(heads, index, rows)
        row_lse = tl.load(lse + offsets, mask=rows < sizes.queries, other=0.0)
        row_delta = tl.load(delta + offsets, mask=rows < sizes.queries, other=0.0)
        p, ds = probabilities_and_gradient(heads, index, q, k, v, do, row_lse, row_delta, rows, columns)
        dv += tl.dot(p, do)
        dk += tl.dot(ds, q)
    to_key, to_value = head_of(to_key, index, sizes.heads), head_of(to_value, index, sizes.heads)
    store_rows(to_key, dk * heads.scale, columns, sizes.keys, sizes.width, BLOCK_E)
    store_rows(to_value, dv, columns, sizes.keys, sizes.width, BLOCK_E)


@triton.jit
def whole_gradient_kernel(
    heads, to_output, output, lse, to_query, to_key, to_value, to_bias,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """One head whose queries and keys are a single tile: all gradients at once."""
    index, sizes = tl.program_id(0), heads.sizes
    rows, columns = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K)
    q = load_rows(head_of(heads.query, index, sizes.heads), rows, sizes.queries, sizes.width, BLOCK_E)
    k = load_rows(head_of(heads.key, index, sizes.heads), columns, sizes.keys, sizes.width, BLOCK_E)
    v = load_rows(head_of(heads.value, index, sizes.heads), columns, sizes.keys, sizes.width, BLOCK_E)
    do = load_rows(head_of(to_output, index, sizes.heads), rows, sizes.queries, sizes.width, BLOCK_E)
    o = load_rows(head_of(output, index, sizes.heads), rows, sizes.queries, sizes.width, BLOCK_E)
    delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    row_lse = tl.load(lse + lse_offsets(heads, index, rows), mask=rows < sizes.queries, other=0.0)
    p, ds = probabilities_and_gradient(heads, index, q, k, v, do, row_lse, delta, rows, columns)
    if to_bias is not None:
        target = head_of(to_bias, index, sizes.heads)
        inside = (rows < sizes.queries)[None, :] & (columns < sizes.bias_keys)[:, None]
        tl.store(target.pointer + rows[None, :] * target.row + columns[:, None], ds, mask=inside)
    to_query, to_key = head_of(to_query, index, sizes.heads), head_of(to_key, index, sizes.heads)
    to_value = head_of(to_value, index, sizes.heads)
    store_rows(to_query, tl.dot(tl.trans(ds), k) * heads.scale, rows, sizes.queries, sizes.width, BLOCK_E)
    store_rows(to_key, tl.dot(ds, q) * heads.scale, columns, sizes.keys, sizes.width, BLOCK_E)
    store_rows(to_value, tl.dot(p, do), columns, sizes.keys, sizes.width, BLOCK_E)
