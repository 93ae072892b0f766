"""Concatenate rows: faster than torch.cat in half precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def cat_rows(*parts: Tensor) -> Tensor:
    """(B, N, D) … -> (B, N + …, D)."""
    if parts[0].element_size() > 2:
        return torch.cat(parts, dim=1)
    joined: Tensor = Joined.apply(*parts)
    return joined


class Joined(torch.autograd.Function):
    """`laid` along rows; gradients are views."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*parts: Tensor) -> Tensor:
        return laid(parts, dim=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.sizes = [part.shape[1] for part in inputs]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return gradient.split(ctx.sizes, dim=1)


def laid(parts: Sequence[Tensor], dim: int) -> Tensor:
    """`torch.cat`, which in half precision takes three times as long as copying part by part."""
    if parts[0].element_size() > 2:
        return torch.cat(list(parts), dim=dim)
    sizes = [part.shape[dim] for part in parts]
    shape = [*parts[0].shape]
    shape[dim] = sum(sizes)
    joined = parts[0].new_empty(shape)
    for target, part in zip(joined.split(sizes, dim=dim), parts, strict=True):
        target.copy_(part)
    return joined
