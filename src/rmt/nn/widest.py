"""float64 for sums, float32 on Apple's GPUs."""

from __future__ import annotations

import torch


def widest(device: torch.device) -> torch.dtype:
    """float64, or float32 on Apple's GPUs, which have nothing finer."""
    return torch.float32 if device.type == "mps" else torch.float64
