"""Attention of segments in our own kernels: any mask, any bias, and the bias's gradient, in one pass each.

Library kernels know no gradient of a bias, or are slow where rows are few. Scores are never written anywhere.
"""

# B batch · H heads · Q queries · K keys · E head width

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.heads import Heads, Places
from rmt.nn.tiles import forward_kernel, gradient_kernel, key_gradient_kernel, query_gradient_kernel


class Bounds(NamedTuple):
    """What is seen where every query sees the first so many keys; for tiles of `sizes`."""

    limits: Tensor  # for each query, how many
    stops: Tensor  # for each tile of queries, where the keys that it sees end
    starts: Tensor  # for each tile of keys, where the queries begin that see it


def sizes(length: int, width: int) -> dict[str, Any]:
    """Tiles for rows of this length: one where it fits, else 64 queries and 32 keys at a time."""
    rows = min(64, max(16, triton.next_power_of_2(length)))
    columns = max(16, triton.next_power_of_2(width))
    return {"BQ": rows, "BK": min(32, rows), "BE": columns, "num_warps": 4 if rows == 64 else 2}


def bounds(mask: Tensor, width: int) -> Bounds:
    """The bounds of a mask (Q, K) in which no key is seen behind one that is not, for heads of this width."""
    side, limits = sizes(mask.shape[1], width)["BQ"], mask.sum(1)
    cut = F.pad(limits, (-len(limits) % side, 0)).unflatten(0, (-1, side))  # as `last_rows` does
    first = torch.arange(0, mask.shape[1], side, device=mask.device)
    starts = (limits > first[:, None]).int().argmax(1)
    return Bounds(limits.int(), cut.amax(1).int(), starts.int())


def strides(*tensors: Tensor) -> tuple[int, ...]:
    """Of batch, head and row; a mask has no heads."""
    return tuple(step for tensor in tensors for step in tensor.stride()[:-1])


def rowwise(tensor: Tensor) -> Tensor:
    """The tensor with contiguous columns."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def like(tensor: Tensor) -> Tensor:
    """Room for a tensor (B, H, N, E) in the order (B, N, H, E), as projections want it."""
    return tensor.new_empty(tensor.transpose(1, 2).shape).transpose(1, 2)


def counts(asked: Heads) -> tuple[Any, ...]:
    """Heads, queries, keys, keys that a bias has room for, head width, scale."""
    _, heads, queries, width = asked.query.shape
    keys = asked.key.shape[2]
    return heads, queries, keys, keys if asked.bias is None else asked.bias.shape[3], width, asked.scale


def attend(asked: Heads, output: Tensor) -> Tensor:
    """Write what is found to `output`, (B, H, Q, E); the logarithms of sums (B, H, Q)."""
    query, key, value, mask = map(rowwise, (asked.query, asked.key, asked.value, asked.mask))
    bias = query if asked.bias is None else rowwise(asked.bias)
    batch, heads, queries, width = query.shape
    weight = query.new_empty(query.shape[:3], dtype=torch.float32)
    mask, bounds, chosen = mask.expand(batch, -1, -1), asked.bounds, sizes(key.shape[2], width)
    shown, stops, _ = bounds or (mask, mask, mask)
    with torch.cuda.device_of(query):
        forward_kernel[(batch * heads, triton.cdiv(queries, chosen["BQ"]))](
            query, key, value, bias, shown, stops, output, weight,
            *strides(query, key, value, bias, mask, output), *counts(asked),
            HAS_BIAS=bias is not query, BOUNDED=bounds is not None, **chosen,
        )  # fmt: skip
    return weight


def attend_gradient(asked: Heads, gradient: Tensor, output: Tensor, weight: Tensor, places: Places) -> None:
    """Write the gradients of query, key, value and bias, if there is one."""
    inputs = (gradient, asked.query, asked.key, asked.value, asked.mask)
    gradient, query, key, value, mask = map(rowwise, inputs)
    bias = query if asked.bias is None else rowwise(asked.bias)
    to_query, to_key, to_value, _ = places
    to_bias = query if places.bias is None else places.bias
    batch, heads, queries, width = query.shape
    keys, mask, bounds = key.shape[2], mask.expand(batch, -1, -1), asked.bounds
    chosen = sizes(keys, width)
    fixed: Any = {"HAS_BIAS": bias is not query, "BOUNDED": bounds is not None, **chosen}
    shown, stops, starts = bounds or (mask, mask, mask)
    with torch.cuda.device_of(query):
        if max(queries, keys) <= chosen["BQ"]:
            fixed["BK"] = chosen["BQ"]
            gradient_kernel[(batch * heads,)](
                query, key, value, bias, shown, output, weight, gradient, to_query, to_key, to_value, to_bias,
                *strides(query, key, value, bias, mask, output, gradient),
                *strides(to_query, to_key, to_value, to_bias), *counts(asked), **fixed,
            )  # fmt: skip
            return
        inner = torch.empty_like(weight)
        query_gradient_kernel[(batch * heads, triton.cdiv(queries, chosen["BQ"]))](
            query, key, value, bias, shown, stops, output, weight, gradient, inner, to_query, to_bias,
            *strides(query, key, value, bias, mask, output, gradient, to_query, to_bias),
            *counts(asked), **fixed,
        )  # fmt: skip
        fixed |= {"BQ": chosen["BK"], "BK": chosen["BQ"], "num_stages": 2}
        key_gradient_kernel[(batch * heads, triton.cdiv(keys, chosen["BQ"]))](
            query, key, value, bias, shown, starts, weight, gradient, inner, to_key, to_value,
            *strides(query, key, value, bias, mask, gradient, to_key, to_value), *counts(asked), **fixed,
        )  # fmt: skip


@torch.library.custom_op("rmt::attention", mutates_args=())
def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """What `attend` writes, and what it returns."""
    output = like(query)
    return output, attend(Heads(query, key, value, bias, mask, scale), output)


@attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor, scale: float) -> Any:
    return like(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("rmt::attention_gradient", mutates_args=())
def attention_gradient(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor,
    output: Tensor,
    weight: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value and bias (empty if there is none)."""
    to_bias = query.new_empty((0,) if bias is None else bias.shape)
    gradients = like(query), like(key), like(value), to_bias
    places = Places(*gradients[:3], None if bias is None else to_bias)
    attend_gradient(Heads(query, key, value, bias, mask, scale), gradient, output, weight, places)
    return gradients


@attention_gradient.register_fake
def _(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor,
    output: Tensor,
    weight: Tensor,
    scale: float,
) -> Any:
    to_bias = query.new_empty((0,) if bias is None else bias.shape)
    return like(query), like(key), like(value), to_bias


def remember(ctx: Any, inputs: Any, output: Any) -> None:
    query, key, value, bias, mask, ctx.scale = inputs
    ctx.save_for_backward(query, key, value, bias, mask, *output)


def differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, output, weight = ctx.saved_tensors
    to_query, to_key, to_value, to_bias = attention_gradient(gradient, *inputs, output, weight, ctx.scale)
    return to_query, to_key, to_value, None if inputs[3] is None else to_bias, None, None


attention.register_autograd(differentiate, setup_context=remember)
