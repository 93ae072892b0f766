"""Rows one after the other."""

# B batch · N rows · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def join(*parts: Tensor) -> Tensor:
    """(B, N, D) … -> (B, N + …, D); in half precision torch's own way takes three times as long."""
    if parts[0].element_size() == 2:
        joined: Tensor = Joined.apply(*parts)
        return joined
    return torch.cat(parts, dim=1)


class Joined(torch.autograd.Function):
    """Parts that are copied to their places; their gradients are views."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*parts: Tensor) -> Tensor:
        sizes = [part.shape[1] for part in parts]
        joined = parts[0].new_empty(parts[0].shape[0], sum(sizes), parts[0].shape[2])
        for place, part in zip(joined.split(sizes, dim=1), parts, strict=True):
            place.copy_(part)
        return joined

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.sizes = [part.shape[1] for part in inputs]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return gradient.split(ctx.sizes, dim=1)
