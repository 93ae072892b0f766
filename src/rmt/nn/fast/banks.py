"""Parameters of one kind in a row, as wide as products want them, and the gradients of matrices.

Zeros fill up what is narrower; they change nothing but the time.
"""

# S seeds · N rows · G matrices that are multiplied at once

from __future__ import annotations

import math

import torch
from torch import Tensor

Shape = tuple[int, ...]
MANY = 2**22  # numbers in two factors that are multiplied at once


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


class Gradients:
    """Gradients of matrices (count, G, rows, columns), which are sums of products leftᵀ right.

    A product of few rows takes longer to begin than to make: such factors wait, and are multiplied at once;
    but no more than `most` numbers wait.
    """

    def __init__(self, like: Tensor, dtype: torch.dtype, most: int):
        self.most = most
        self.totals = torch.zeros_like(like, dtype=dtype, memory_format=torch.contiguous_format)
        self.clear()

    def clear(self) -> None:
        self.waiting: list[list[tuple[Tensor, Tensor]]] = [[] for _ in self.totals]
        self.count = 0  # numbers that wait

    def forget(self) -> None:
        """Begin with zero."""
        self.totals.zero_()
        self.clear()

    def add(self, number: int, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ right to one of them; (G, N, rows) and (G, N, columns)."""
        size = left.numel() + right.numel()
        if size > min(MANY, self.most):
            add_product(self.totals[number], left, right)
            return
        if self.count + size > self.most:
            self.sums()
        self.waiting[number].append((left, right))
        self.count += size

    def sums(self) -> Tensor:
        """All of them, with what has waited."""
        alike: dict[int, list[int]] = {}  # matrices by their number of rows
        for number, pairs in enumerate(self.waiting):
            alike.setdefault(sum(left.shape[1] for left, _ in pairs), []).append(number)
        for numbers in (numbers for rows, numbers in alike.items() if rows):
            sides = zip(*(pair for number in numbers for pair in self.waiting[number]), strict=True)
            left, right = (torch.cat(side, dim=1).unflatten(1, (len(numbers), -1)) for side in sides)
            found = self.totals.new_zeros(left.shape[0] * len(numbers), *self.totals.shape[2:])
            add_product(found, left.flatten(0, 1), right.flatten(0, 1))
            found = found.unflatten(0, left.shape[:2])
            torch._foreach_add_([self.totals[number] for number in numbers], list(found.unbind(1)))
        self.clear()
        return self.totals


class Matrices(Bank):
    """Matrices (count, S, rows, columns) and their gradients."""

    def __init__(self, parameters: list[Tensor], shape: Shape, room: Shape, rows: int, dtype: torch.dtype):
        super().__init__(parameters, shape, room, dtype)
        self.matrices = self.stored.view(len(parameters), self.seeds, rows, -1)

    def make_room(self, learns: bool, most: int) -> None:
        """For gradients."""
        like = self.matrices if learns else self.matrices[:0]
        self.gradients = Gradients(like, exact(like.dtype), most)

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


def exact(dtype: torch.dtype) -> torch.dtype:
    """The number format of sums."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += leftᵀ right, (S, rows, columns), exact to its number format."""
    if left.dtype == total.dtype:
        total.baddbmm_(left.mT, right)
    elif len(total) == 1:
        torch.ops.aten.addmm.dtype_out(total[0], left[0].mT, right[0], total.dtype, out=total[0])
    else:
        torch.ops.aten.baddbmm.dtype_out(total, left.mT, right, total.dtype, out=total)
