"""Which layers are fused on a card: their weights' tiles have to fit beside those of rows."""

from __future__ import annotations

import torch
import triton

# bytes of a row as wide as a layer, and the shared memory that a program of the fused kernels takes for it at
# most (compiled, tests/gpu/test_compiled.py); an H100 or H200 has 232,448 bytes, an A100 166,912
MAX_FUSED_ROW, FUSED_SHARED = 256, 172_032


def max_fused_bytes(device: torch.device) -> int:
    """The widest row of a layer that is fused on a device; Triton's interpreter holds any."""
    if device.type != "cuda":
        return MAX_FUSED_ROW
    properties = triton.runtime.driver.active.utils.get_device_properties(device.index or 0)
    return MAX_FUSED_ROW if properties["max_shared_mem"] >= FUSED_SHARED else 0
