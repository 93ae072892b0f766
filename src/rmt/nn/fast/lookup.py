"""A table during an update: segments look tokens up, and the gradient of all of them is made at once."""

# S seeds · V rows of the table · D width

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.fast.banks import add, wide
from rmt.nn.fast.classes import Classes
from rmt.nn.fast.gradients import add_product, exact
from rmt.nn.joining import laid

MANY = 2**24  # numbers in a matrix that chooses rows


class Held:
    """A module's table (V, D), or S stacked ones (S, V, D), in and out; while this is open, it is used."""

    def __init__(
        self,
        modules: list[Any],
        table: tuple[Tensor, Tensor],
        outputs: list[Classes],
        dtype: torch.dtype,
        most: int,
    ):
        """`table` is weight and bias, and the words are the first pieces of the `outputs`.

        Rows are looked up in `dtype`. At `most` so many numbers of gradients wait for their sum.
        """
        self.modules, self.table, self.outputs = modules, table, outputs
        self.dtype, self.most = dtype, most
        self.found: list[tuple[Tensor, Tensor]] = []  # row numbers and the gradients of those rows
        self.scale = 1.0  # of rows that are looked up
        self.scaled: Tensor | None = None  # the whole table, if that has fewer rows

    def __enter__(self) -> Held:
        self.found, self.scaled = [], None
        for classes in self.outputs:
            classes.refresh()
        for module in self.modules:
            module.held = self
        return self

    def __exit__(self, *error: object) -> None:
        for module in self.modules:
            module.held = None

    def rows(self, weight: Tensor, tokens: Tensor, scale: float) -> Tensor:
        """The rows of some tokens, times `scale`."""
        self.scale = scale
        found: Tensor = Lookup.apply(weight, tokens, self)
        return found

    def look_up(self, weight: Tensor, tokens: Tensor) -> Tensor:
        """What `rows` are; what is shorter is scaled, the rows or the table."""
        if weight[..., 0].numel() > tokens.numel():
            return times(F.embedding(tokens, weight.flatten(0, -2)), self.scale).to(self.dtype)
        if self.scaled is None:
            self.scaled = times(weight.detach(), self.scale).flatten(0, -2).to(self.dtype)
        return F.embedding(tokens, self.scaled)

    def wait(self, numbers: Tensor, gradient: Tensor) -> None:
        """Keep the gradients of some rows, but not too many of them."""
        self.found.append((numbers, gradient))
        if sum(rows.numel() for _, rows in self.found) > self.most:
            self.add_rows()

    def add_rows(self) -> None:
        """Add what waits to the gradient of the table."""
        if self.found:
            words, rows = zip(*self.found, strict=True)
            tokens, gradients = flat(words, 0), flat(rows, 1)
            count = self.table[0].flatten(0, -2).shape[0]
            if count <= len(tokens):
                add(self.table[0], times(summed(gradients, tokens, count), self.scale))
            else:
                add(self.table[0], summed(times(gradients, self.scale), tokens, count))
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
        return held.look_up(weight, numbers(weight, tokens))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Held], output: Tensor) -> None:
        weight, tokens, ctx.held = inputs
        ctx.save_for_backward(numbers(weight, tokens))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        (tokens,) = ctx.saved_tensors
        ctx.held.wait(tokens, gradient)
        return None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, int, None], weight: Tensor, tokens: Tensor, held: Held
    ) -> tuple[Tensor, int]:
        """All seeds at once."""
        return Lookup.apply(weight.movedim(in_dims[0], 0), tokens.movedim(in_dims[1], 0), held), 0


def flat(parts: Sequence[Tensor], own: int) -> Tensor:
    """Parts in a row, all but their `own` last dimensions flat; those of one shape are copied once."""
    if len({part.shape for part in parts}) == 1:
        return laid(parts, dim=0).flatten(0, -1 - own)
    return laid([part.flatten(0, -1 - own) for part in parts], dim=0)


def times(x: Tensor, scale: float) -> Tensor:
    """x · scale, or x itself."""
    return x if scale == 1.0 else x * scale


def numbers(weight: Tensor, tokens: Tensor) -> Tensor:
    """Tokens as rows of all tables in a row."""
    if weight.dim() == 2:
        return tokens
    first = torch.arange(len(weight), device=tokens.device) * weight.shape[1]
    return tokens + first.view(-1, *(1,) * (tokens.dim() - 1))


def summed(rows: Tensor, numbers: Tensor, count: int) -> Tensor:
    """Rows (N, D) added up by their numbers, (count, D): a product where many have the same."""
    form = exact(rows.dtype)
    if rows.is_cuda and count * len(rows) <= MANY:
        chosen = numbers[:, None] == torch.arange(wide(count), device=numbers.device)
        total = rows.new_empty(1, wide(count), rows.shape[1], dtype=form)
        add_product(total, chosen[None].to(rows.dtype), rows[None], False)
        return total[0, :count]
    made: Tensor = torch.ops.aten.embedding_dense_backward(rows.to(form), numbers, count, -1, False)
    return made
