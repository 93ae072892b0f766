"""Parameters of one kind in a row, as wide as products want them.

Zeros fill up what is narrower; they change nothing but the time.
"""

# S seeds · N rows

from __future__ import annotations

import math

import torch
from torch import Tensor

from rmt.nn.fast.gradients import Gradients, exact

Shape = tuple[int, ...]


def wide(size: int, step: int = 16) -> int:
    """The next multiple of what products and loads want."""
    return size + -size % step


class Bank:
    """Parameters of one kind and shape, one after the other, of every seed: (count, S, …)."""

    def __init__(self, parameters: list[Tensor], shape: Shape, room: Shape, dtype: torch.dtype):
        """`shape` is a parameter's own, taken apart where it is filled up inside; `room` is filled up."""
        self.parameters, self.shape = parameters, shape
        self.seeds = parameters[0].numel() // math.prod(shape)
        self.inside = (..., *(slice(size) for size in shape))
        self.stored = torch.zeros(
            len(parameters), self.seeds, *room, dtype=dtype, device=parameters[0].device
        )

    def __getitem__(self, number: int) -> Tensor:
        return self.stored[number]

    def values(self) -> list[Tensor]:
        """The parameters as they are now, taken apart."""
        return [one.detach().reshape(self.seeds, *self.shape) for one in self.parameters]

    def deliver(self, gradients: Tensor) -> None:
        """Hand each parameter its gradient."""
        for parameter, gradient in zip(self.parameters, gradients.reshape(self.stored.shape), strict=True):
            add(parameter, gradient[self.inside])


class Matrices(Bank):
    """Matrices (count, S, rows, columns) and their gradients."""

    def __init__(self, parameters: list[Tensor], shape: Shape, room: Shape, rows: int, dtype: torch.dtype):
        super().__init__(parameters, shape, room, dtype)
        self.matrices = self.stored.view(len(parameters), self.seeds, rows, -1)

    def make_room(self, learns: bool, most: int) -> None:
        """For gradients."""
        like = self.matrices if learns else self.matrices[:0]
        self.gradients = Gradients(like, exact(like.dtype), most)

    def room(self, number: int, rows: int, keeps: bool) -> Tensor:
        """A place for rows (S, N, columns) that a matrix multiplies; those that are kept can wait there."""
        if keeps:
            return self.gradients.room(number, rows)
        return self.stored.new_empty(self.seeds, rows, self.matrices.shape[-1])

    def __getitem__(self, number: int) -> Tensor:
        return self.matrices[number]


def add(parameter: Tensor, gradient: Tensor) -> None:
    """Add to a parameter's gradient, in place where there is one."""
    if not parameter.requires_grad:
        return
    found = gradient.reshape(parameter.shape).to(parameter.dtype)
    if parameter.grad is None:
        parameter.grad = found.contiguous()
    else:
        parameter.grad += found
