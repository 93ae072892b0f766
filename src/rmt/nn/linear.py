"""Products in widths that suit a GPU."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`; on a GPU, zeros fill up widths that 8 does not divide: they change nothing but the time."""
    rows, columns = (-size % 8 for size in weight.shape)
    if not x.is_cuda or not rows + columns:
        return F.linear(x, weight, bias)
    wide = F.linear(
        F.pad(x, (0, columns)),
        F.pad(weight, (0, columns, 0, rows)),
        None if bias is None else F.pad(bias, (0, rows)),
    )
    return wide[..., : len(weight)]


class Linear(nn.Linear):
    """`nn.Linear` by way of `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
