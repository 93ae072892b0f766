"""A table during an update: segments look tokens up, and the gradient of all of them is made at once."""

# S seeds · V rows of the table · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

SHORT = 1024  # rows of a table


class Held:
    """A module's table (V, D), or S stacked ones (S, V, D); while this is open, the module uses it."""

    def __init__(self, module: Any, weight: Tensor, bias: Tensor):
        self.module, self.weight, self.bias = module, weight, bias
        self.found: list[tuple[Tensor, Tensor]] = []  # row numbers and the gradients of those rows
        self.leaves: list[tuple[Tensor, Tensor]] = []  # slices of weight and bias

    def __enter__(self) -> Held:
        self.found, self.leaves = [], []
        self.module.held = self
        return self

    def __exit__(self, *error: object) -> None:
        self.module.held = None

    def rows(self, weight: Tensor, tokens: Tensor) -> Tensor:
        """The rows of some tokens."""
        found: Tensor = Lookup.apply(weight, tokens, self)
        return found

    def slices(self, sizes: list[int]) -> list[tuple[Tensor, Tensor]]:
        """Slices of the table as leaves of their own: the gradient of one does not go through the others."""
        if not self.leaves:
            parts = (one.detach().split(sizes) for one in (self.weight, self.bias))
            self.leaves = [
                (weight.requires_grad_(), bias.requires_grad_()) for weight, bias in zip(*parts, strict=True)
            ]
        return self.leaves

    def deliver(self) -> None:
        """Add to the gradients of the table."""
        if self.leaves and self.leaves[0][0].grad is not None:
            for parameter, leaves in zip(
                (self.weight, self.bias), zip(*self.leaves, strict=True), strict=True
            ):
                add(parameter, torch.cat([zeros_or(leaf) for leaf in leaves]))
        if self.found:
            tokens, gradients = (torch.cat(column) for column in zip(*self.found, strict=True))
            made = summed(gradients, tokens, self.weight.flatten(0, -2).shape[0])
            add(self.weight, made.view_as(self.weight))
        self.found, self.leaves = [], []


class Lookup(torch.autograd.Function):
    """Rows of a table, whose gradient is left with those that hold it."""

    @staticmethod
    def forward(weight: Tensor, tokens: Tensor, held: Held) -> Tensor:
        return F.embedding(numbers(weight, tokens), weight.flatten(0, -2))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Held], output: Tensor) -> None:
        weight, tokens, ctx.held = inputs
        ctx.save_for_backward(numbers(weight, tokens))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        (tokens,) = ctx.saved_tensors
        ctx.held.found.append((tokens.flatten(), gradient.flatten(0, -2)))
        return None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, int, None], weight: Tensor, tokens: Tensor, held: Held
    ) -> tuple[Tensor, int]:
        """All seeds at once."""
        return Lookup.apply(weight.movedim(in_dims[0], 0), tokens.movedim(in_dims[1], 0), held), 0


def numbers(weight: Tensor, tokens: Tensor) -> Tensor:
    """Tokens as rows of all tables in a row."""
    if weight.dim() == 2:
        return tokens
    first = torch.arange(len(weight), device=tokens.device) * weight.shape[1]
    return tokens + first.view(-1, *(1,) * (tokens.dim() - 1))


def summed(rows: Tensor, numbers: Tensor, count: int) -> Tensor:
    """Rows (N, D) added up by their numbers, (count, D): a product where many have the same."""
    if rows.is_cuda and count <= SHORT:
        chosen = numbers == torch.arange(count, device=numbers.device)[:, None]
        return chosen.to(rows.dtype) @ rows
    made: Tensor = torch.ops.aten.embedding_dense_backward(rows, numbers, count, -1, False)
    return made


def add(parameter: Tensor, gradient: Tensor) -> None:
    """Add to a parameter's gradient, in place where there is one."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient


def zeros_or(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
