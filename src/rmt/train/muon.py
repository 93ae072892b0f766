"""Muon: momentum whose direction is made orthogonal, for matrices; equal shapes are done together."""

# G matrices of one shape · R rows · S columns

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rmt.train.eager import Eager
from rmt.train.parallel import gather_full, placed

# Keller Jordan's quintic (2024), as in torch.optim.Muon: so steep at zero that five iterations bring small
# singular values near one, at the price of not ending at one exactly.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
MIN_NORM = 1e-7  # of a matrix that is divided by its norm, as torch.optim.Muon has it


class Muon(Eager, Optimizer):
    """The rule of `torch.optim.Muon` (Nesterov momentum, original step size), batched over equal shapes.

    A parameter (…, R, S) is as many matrices. A sharded matrix is gathered, and every process makes all of it
    orthogonal. That runs in bfloat16 on a GPU and in the parameter's own precision elsewhere.
    """

    def __init__(
        self,
        matrices: Iterable[Tensor],
        lr: float | Tensor,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ):
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # closures are not evaluated
        for group in self.param_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            if not matrices:
                continue
            blended = self.blended(matrices, group["momentum"])
            if group["weight_decay"]:
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for number, matrix in enumerate(matrices):
                alike[*matrix.shape[:-2], *sorted(matrix.shape[-2:])].append(number)
            for numbers in alike.values():
                steps = directions([blended[number] for number in numbers], group["lr"])
                chosen = [matrices[number] for number in numbers]
                torch._foreach_add_(chosen, list(map(placed, steps, chosen)))

    def blended(self, matrices: list[Tensor], momentum: float) -> list[Tensor]:
        """Gradients and what is remembered of earlier ones, as Nesterov does."""
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        return [gather_full(direction) for direction in torch._foreach_lerp(gradients, buffers, momentum)]


def directions(matrices: list[Tensor], lr: float | Tensor) -> list[Tensor]:
    """Where matrices of one shape go, be they wide or tall: -lr times the nearest orthogonal ones, nearly.

    Tall matrices go further. They are turned by products, and what scales a matrix scales its smaller factor
    instead: nothing else passes over the matrices.
    """
    sides: dict[bool, list[int]] = defaultdict(list)  # the numbers of wide and of tall ones
    for number, matrix in enumerate(matrices):
        sides[matrix.shape[-2] > matrix.shape[-1]].append(number)
    parts = [stacked([matrices[number] for number in numbers]).flatten(0, -3) for numbers in sides.values()]
    factors, x = newton_schulz([part.mT if tall else part for tall, part in zip(sides, parts, strict=True)])
    sizes, dtype = [len(part) for part in parts], matrices[0].dtype
    longer = math.sqrt(x.shape[2] / x.shape[1])
    steps: dict[int, Tensor] = {}
    for (tall, numbers), factor, wide in zip(
        sides.items(), factors.split(sizes), x.split(sizes), strict=True
    ):
        scaled = factor * (-lr * longer if tall else -lr)
        products = product(wide.mT, scaled, dtype) if tall else product(scaled, wide, dtype)
        steps |= zip(numbers, products.view(len(numbers), *matrices[numbers[0]].shape), strict=True)
    return [steps[number] for number in range(len(matrices))]


def stacked(matrices: list[Tensor]) -> Tensor:
    """Matrices of one shape in a row; on a GPU in bfloat16, which is cast while they are copied."""
    if not matrices[0].is_cuda:
        return torch.stack(matrices)
    result = matrices[0].new_empty(len(matrices), *matrices[0].shape, dtype=torch.bfloat16)
    torch._foreach_copy_(list(result.unbind(0)), matrices)
    return result


def newton_schulz(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Symmetric factors (G, R, R) and wide matrices (G, R, S) whose products are nearly orthogonal.

    The products would be those of five iterations x := p(x xᵀ) x with a quintic p(x xᵀ) x; it begins with the
    matrices of all `parts`, divided by their norms.
    """
    gram = torch.cat([part @ part.mT for part in parts])
    squares = gram.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None].clamp(min=MIN_NORM**2)
    factors = polynomial(gram / squares) * squares.rsqrt()
    x = parts[0].new_empty(len(gram), *parts[0].shape[1:])
    sizes = [len(part) for part in parts]
    for factor, part, result in zip(factors.split(sizes), parts, x.split(sizes), strict=True):
        torch.bmm(factor, part, out=result)
    for _ in range(ITERATIONS - 2):
        x = polynomial(x @ x.mT) @ x
    return polynomial(x @ x.mT), x


def polynomial(gram: Tensor) -> Tensor:
    """a + b gram + c gram², (G, R, R)."""
    a, b, c = COEFFICIENTS
    result = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
    result.diagonal(dim1=-2, dim2=-1).add_(a)
    return result


def product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """left @ right in a number format, summed and given in float32 where the factors are in bfloat16."""
    if left.dtype == dtype:
        return left @ right
    return torch.ops.aten.bmm.dtype(left, right, torch.float32).to(dtype)
