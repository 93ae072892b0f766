"""Parameters of one kind in a row, as wide as products want them.

Zeros fill up what is narrower; they change nothing but the time.
"""

# S seeds · count parameters

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from rmt.gpu.weight_gradients import Slot, WeightGradients, sum_format

Shape = tuple[int, ...]


class PaddedParameters:
    """Parameters of one kind and shape, one after the other, of every seed: (count, S, …)."""

    def __init__(self, parameters: list[Tensor], shape: Shape, padded_shape: Shape, dtype: torch.dtype):
        """`shape` is a parameter's, split where it is padded inside."""
        self.parameters, self.shape = parameters, shape
        self.seeds = parameters[0].numel() // math.prod(shape)
        device = parameters[0].device
        self.stored = torch.zeros(len(parameters), self.seeds, *padded_shape, dtype=dtype, device=device)
        self.true_part: Any = (..., *(slice(size) for size in shape))
        self.unpadded = self.stored[self.true_part]  # a view, (count, S, *shape)

    def __getitem__(self, number: int) -> Tensor:
        return self.stored[number]

    def values(self) -> list[Tensor]:
        """The parameters as they are now, split like `shape`."""
        return [parameter.detach().reshape(self.seeds, *self.shape) for parameter in self.parameters]

    def deliver(self, gradients: Tensor) -> None:
        """Hand each parameter its gradient, from all of them as they are stored."""
        padded = gradients.reshape(self.stored.shape)
        for parameter, gradient in zip(self.parameters, padded, strict=True):
            add_gradient(parameter, gradient[self.true_part])


class PaddedMatrices(PaddedParameters):
    """Matrices (count, S, rows, columns) and their gradients."""

    gradients: WeightGradients

    def __init__(
        self,
        parameters: list[Tensor],
        shape: Shape,
        padded_shape: Shape,
        columns: int,
        dtype: torch.dtype,
    ):
        super().__init__(parameters, shape, padded_shape, dtype)
        self.matrices = self.stored.view(len(parameters), self.seeds, -1, columns)

    def make_gradients(self, learns: bool, max_waiting: int) -> None:
        """Room for their sums, if anything is learned."""
        like = self.matrices if learns else self.matrices[:0]
        self.gradients = WeightGradients(like, sum_format(like.dtype), max_waiting)

    def begin(self) -> None:
        """Begin an update: gradients that a caller kept move out of the sums, which are written again."""
        sums = self.gradients.totals.untyped_storage().data_ptr()
        for parameter in self.parameters:
            gradient = parameter.grad
            if gradient is not None and gradient.untyped_storage().data_ptr() == sums:
                parameter.grad = gradient.clone()
        self.gradients.begin()

    def slot(self, number: int, rows: int, waits: bool) -> Slot:
        """Where to write rows that a matrix is going to multiply: where they can wait, or anywhere."""
        if waits:
            return self.gradients.slot(number, rows)
        return self.slot_of(number, self.stored.new_empty(self.seeds, rows, self.matrices.shape[-1]))

    def slot_of(self, number: int, rows: Tensor) -> Slot:
        """Rows (S, N, columns) that a matrix is going to multiply, where they are."""
        return self.gradients.slot_of(number, rows)

    def __getitem__(self, number: int) -> Tensor:
        return self.matrices[number]


def add_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """Add to a parameter's gradient, in place where there is one."""
    if not parameter.requires_grad:
        return
    gradient = gradient.reshape(parameter.shape).to(parameter.dtype)
    if parameter.grad is None:
        parameter.grad = gradient.contiguous()
    else:
        parameter.grad += gradient
