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

    def __init__(self, modules: list[Any], table: tuple[Tensor, Tensor], outputs: list[Classes], most: int):
        """`table` is weight and bias, and the words are the first pieces of the `outputs`.

        At `most` so many numbers of gradients wait for their sum.
        """
        self.modules, self.table, self.outputs, self.most = modules, table, outputs, most
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

    def wait(self, numbers: Tensor, gradient: Tensor) -> None:
        """Keep the gradients of some rows, but not too many of them."""
        self.found.append((numbers, gradient))
        if sum(rows.numel() for _, rows in self.found) > self.most:
            self.add_rows()

    def add_rows(self) -> None:
        """Add what waits to the gradient of the table."""
        if self.found:
            tokens, gradients = (torch.cat(column) for column in zip(*self.found, strict=True))
            add(self.table[0], summed(gradients, tokens, self.table[0].flatten(0, -2).shape[0]))
        self.found = []

    def deliver(self) -> None:
        """Add to the gradients of the table, and of what else is among the classes."""
        found = [classes.found() for classes in self.outputs]
        words = zip(*(pieces[0] for pieces in found), strict=True)
        for parameter, gradients in zip(self.table, words, strict=True):
            add(parameter, gradients[0] if len(gradients) == 1 else torch.cat(gradients, dim=1))
        for classes, pieces in zip(self.outputs, found, strict=True):
            for piece, gradients in zip(classes.pieces[1:], pieces[1:], strict=True):
                add(piece.weight, gradients[0])
                add(piece.bias, gradients[1])
        self.add_rows()


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
        ctx.held.wait(tokens.flatten(), gradient.flatten(0, -2))
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
