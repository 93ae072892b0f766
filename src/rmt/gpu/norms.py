"""Layer norms between the products: what goes in, what comes out, and what their gradients need."""

# S seeds · N rows · D width, padded

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rmt.gpu.dropout import Drop

EPSILON = 1e-5  # added to variances, as torch.nn.LayerNorm does; kernels have it as a number


class Norm(NamedTuple):
    """The parameters of a layer norm, and where the gradients of an update gather."""

    gain: Tensor  # (S, D)
    shift: Tensor  # (S, D)
    sums: Tensor  # (S, blocks, 3, D) gradients of gain and shift, and of the bias of the branch before it
    width: int  # the true one
    dtype: torch.dtype  # of products: what they multiply, rows and gradients, is written in it
    is_post: bool  # LN(x + f(x)): the residual goes on from behind the norm, not from before it


class Branch(NamedTuple):
    """What a block adds to the residual: dropout(rows + bias)."""

    rows: Tensor  # (S, N, D)
    bias: Tensor | None  # (S, D)
    drop: Drop | None


class Normed(NamedTuple):
    """Rows and their layer norm."""

    total: Tensor  # (S, N, D) the rows: residual and branch together
    normal: Tensor  # (S, N, D) their norm
    moments: Tensor | None  # (2, S, N) means, and one over the deviations; none where kernels make them again
