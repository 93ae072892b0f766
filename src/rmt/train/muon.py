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

from rmt.train.parallel import placed, whole

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(Optimizer):
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
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike[matrix.shape].append(matrix)
            for matrices in alike.values():
                self.update(matrices, group)

    def update(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        """One step of all matrices of one shape."""
        momentum, lr = group["momentum"], group["lr"]
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        gradients = [matrix.grad for matrix in matrices]
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        blended = [whole(one) for one in torch._foreach_lerp(gradients, buffers, momentum)]
        stacked = torch.stack(blended)
        rows, columns = stacked.shape[-2:]
        directions = orthogonal(stacked.flatten(0, -3)).view_as(stacked)
        directions = directions * (lr * -math.sqrt(max(1.0, rows / columns)))
        if group["weight_decay"]:
            torch._foreach_mul_(matrices, 1 - lr * group["weight_decay"])
        steps = [placed(one, matrix) for one, matrix in zip(directions, matrices, strict=True)]
        torch._foreach_add_(matrices, steps)


def orthogonal(matrices: Tensor) -> Tensor:
    """Nearly the nearest orthogonal matrices (G, R, S), by a quintic Newton–Schulz iteration."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
