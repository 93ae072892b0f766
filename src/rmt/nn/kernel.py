"""Attention of segments in our own kernels: any mask, any bias, and the bias's gradient, in one pass each.

Library kernels know no gradient of a bias, or are slow where rows are few. Scores are never written anywhere;
positions come as a view of what a product wrote.
"""

# B batch · H heads · Q queries · K keys · E head width

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from rmt.nn.tiles import forward_kernel, key_gradient_kernel, query_gradient_kernel


def sizes(length: int, width: int) -> dict[str, Any]:
    """Tiles for rows of this length: one where it fits, else 64 × 64."""
    rows = min(64, max(16, triton.next_power_of_2(length)))
    return {"BQ": rows, "BK": rows, "BE": max(16, triton.next_power_of_2(width)), "num_warps": 4}


def strides(*tensors: Tensor) -> tuple[int, ...]:
    """Of batch, head and row; a mask has no heads."""
    return tuple(step for tensor in tensors for step in tensor.stride()[:-1])


def rowwise(tensor: Tensor) -> Tensor:
    """The tensor with contiguous columns."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def like(tensor: Tensor) -> Tensor:
    """Room for a tensor (B, H, N, E) in the order (B, N, H, E), as projections want it."""
    return tensor.new_empty(tensor.transpose(1, 2).shape).transpose(1, 2)


@torch.library.custom_op("rmt::attention", mutates_args=())
def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """softmax(scale · query keyᵀ + bias) value over the visible keys: (B, H, Q, E), and log-sums (B, H, Q).

    `bias` is (B, H, Q, K), `mask` (B or 1, Q, K) true where a key is visible.
    """
    query, key, value, mask = map(rowwise, (query, key, value, mask))
    bias = query if bias is None else rowwise(bias)
    batch, heads, queries, width = query.shape
    output, weight = like(query), query.new_empty(query.shape[:3], dtype=torch.float32)
    mask = mask.expand(batch, -1, -1)
    chosen = sizes(key.shape[2], width)
    with torch.cuda.device_of(query):
        forward_kernel[(batch * heads, triton.cdiv(queries, chosen["BQ"]))](
            query, key, value, bias, mask, output, weight,
            *strides(query, key, value, bias, mask, output),
            heads, queries, key.shape[2], width, scale, HAS_BIAS=bias is not query, **chosen,
        )  # fmt: skip
    return output, weight


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
    gradient, query, key, value, mask = map(rowwise, (gradient, query, key, value, mask))
    bias = query if bias is None else rowwise(bias)
    batch, heads, queries, width = query.shape
    keys, has_bias = key.shape[2], bias is not query
    to_query, to_key, to_value = like(query), like(key), like(value)
    to_bias = query.new_empty((batch, heads, queries, keys) if has_bias else (0,))
    inner, mask = torch.empty_like(weight), mask.expand(batch, -1, -1)
    chosen = sizes(keys, width)
    with torch.cuda.device_of(query):
        query_gradient_kernel[(batch * heads, triton.cdiv(queries, chosen["BQ"]))](
            query, key, value, bias, mask, output, weight, gradient, inner, to_query, to_bias,
            *strides(query, key, value, bias, mask, output, gradient, to_query),
            heads, queries, keys, width, scale, HAS_BIAS=has_bias, **chosen,
        )  # fmt: skip
        key_gradient_kernel[(batch * heads, triton.cdiv(keys, chosen["BK"]))](
            query, key, value, bias, mask, weight, gradient, inner, to_key, to_value,
            *strides(query, key, value, bias, mask, gradient, to_key, to_value),
            heads, queries, keys, width, scale, HAS_BIAS=has_bias, **chosen,
        )  # fmt: skip
    return to_query, to_key, to_value, to_bias


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
