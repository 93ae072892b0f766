"""Mixed precision: weights and states in float32, products in bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from rmt.core.model import Output, SegmentModel
from rmt.train.processes import Processes


def mixed(model: SegmentModel, processes: Processes) -> Callable[..., Output]:
    """The model as it is called: products in bfloat16, and what it gives in float32."""

    def call(*inputs: Any, **options: Any) -> Output:
        with processes.autocast():
            output = model(*inputs, **options)
        result: Output = tree_map_only(Tensor, widened, output)
        return result

    return call


def widened(tensor: Tensor) -> Tensor:
    """What was computed in bfloat16, in float32."""
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor
