"""One call of attention as kernels take it, and whether there are any."""

# B batch · H heads · Q queries · K keys · E head width

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._triton import has_triton, has_triton_package

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # kernels run on a CPU, slowly: for tests
KERNELS = has_triton_package() if INTERPRETED else torch.cuda.is_available() and has_triton()


class Heads(NamedTuple):
    """Queries and what they look at: softmax(scale · query keyᵀ + bias) value, over the visible keys."""

    query: Tensor  # (B, H, Q, E)
    key: Tensor  # (B, H, K, E)
    value: Tensor  # (B, H, K, E)
    bias: Tensor | None  # (B, H, Q, K or more)
    mask: Tensor  # (B or 1, Q, K), true where a key is visible
    scale: float
    bounds: Any = None  # of a mask that all rows of the batch share: `rmt.nn.kernel.Bounds`


class Places(NamedTuple):
    """Where the gradients of `Heads` are written."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
