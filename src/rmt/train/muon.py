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
from rmt.train.parallel import placed, whole

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
        return [whole(direction) for direction in torch._foreach_lerp(gradients, buffers, momentum)]


def directions(matrices: list[Tensor], lr: float | Tensor) -> list[Tensor]:
    """Where matrices of one shape go, be they wide or tall: both are made orthogonal alike."""
    tall = [matrix.shape[-2] > matrix.shape[-1] for matrix in matrices]
    sides = [
        [matrix for matrix, is_tall in zip(matrices, tall, strict=True) if is_tall == side]
        for side in (False, True)
    ]
    wide = [stacked(side).mT if turned else stacked(side) for turned, side in enumerate(sides) if side]
    together = wide[0] if len(wide) == 1 else torch.cat(wide)
    rows, columns = together.shape[-2:]
    steps_of_all = orthogonal(together.flatten(0, -3)).view(together.shape).to(matrices[0].dtype) * -lr
    straight, turned = steps_of_all.split([len(side) for side in sides])
    steps = iter(straight), iter((turned * math.sqrt(columns / rows)).mT.contiguous())
    return [next(steps[is_tall]) for is_tall in tall]


def stacked(matrices: list[Tensor]) -> Tensor:
    """Matrices of one shape in a row; on a GPU in bfloat16, which is cast while they are copied."""
    if not matrices[0].is_cuda:
        return torch.stack(matrices)
    result = matrices[0].new_empty(len(matrices), *matrices[0].shape, dtype=torch.bfloat16)
    torch._foreach_copy_(list(result.unbind(0)), matrices)
    return result


def orthogonal(matrices: Tensor) -> Tensor:
    """Nearly the nearest orthogonal matrices (G, R, S), by a quintic Newton–Schulz iteration."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=MIN_NORM)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
