"""Number format, kernels or twins, and memory limits of an engine."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch


class EngineSettings(NamedTuple):
    """How an engine computes."""

    dtype: torch.dtype  # of products
    operations: ModuleType  # `rmt.gpu.kernels.operations`, or `rmt.gpu.naive`
    learns: bool  # whether gradients are needed
    max_waiting: int  # elements of factors that may wait until an update ends, for each kind of matrix
