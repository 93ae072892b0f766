"""A table during an update: segments look tokens up, and the gradient of all of them is made at once."""

# S seeds · V rows of the table · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.fast.banks import add
from rmt.nn.fast.classes import Classes

MANY = 2**24  # numbers in a matrix that chooses rows


class Held:
    """A module's table (V, D), or S stacked ones (S, V, D), in and out; while this is open, it is used."""

    def __init__(
        self, modules: list[Any], weight: Tensor, bias: Tensor, outputs: list[Classes], extra: Any = ()
    ):
        """The words are the first pieces of the `outputs`, `extra` is the second piece of the first."""
        self.modules, self.weight, self.bias = modules, weight, bias
        self.outputs, self.extra = outputs, extra
        self.found: list[tuple[Tensor, Tensor]] = []  # row numbers and the gradients of those rows

    def __enter__(self) -> Held:
        self.found = []
        for classes in self.outputs:
            classes.refresh()
        for module in self.modules:
            module.held = self
        return self

    def __exit__(self, *error: object) -> None:
        for module in self.modules:
            module.held = None

    def rows(self, weight: Tensor, tokens: Tensor) -> Tensor:
        """The rows of some tokens."""
        found: Tensor = Lookup.apply(weight, tokens, self)
        return found

    def deliver(self) -> None:
        """Add to the gradients of the table."""
        (words, *others), *tails = (classes.found() for classes in self.outputs)
        parts = [words, *(tail[0] for tail in tails)]
        for parameter, gradients in zip((self.weight, self.bias), zip(*parts, strict=True), strict=True):
            add(parameter, gradients[0] if len(gradients) == 1 else torch.cat(gradients, dim=1))
        for parameters, gradients in zip((self.extra,) if others else (), others, strict=True):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                add(parameter, gradient)
        if self.found:
            tokens, gradients = (torch.cat(column) for column in zip(*self.found, strict=True))
            add(self.weight, summed(gradients, tokens, self.weight.flatten(0, -2).shape[0]))
        self.found = []


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
    if rows.is_cuda and count * len(rows) <= MANY:
        chosen = numbers == torch.arange(count, device=numbers.device)[:, None]
        return chosen.to(rows.dtype) @ rows
    made: Tensor = torch.ops.aten.embedding_dense_backward(rows, numbers, count, -1, False)
    return made
