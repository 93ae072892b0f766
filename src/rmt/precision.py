"""Number formats to compute in, by name, the same for everything that computes."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from rmt.errors import ConfigError, unknown

MIXED = "bf16-mixed"
WEIGHTS = {"32-true": torch.float32, MIXED: torch.float32, "64-true": torch.float64}


def precision_of(name: str, device: torch.device | str) -> str:
    """The number format that `auto` stands for on a device; any other name stands for itself."""
    if name not in ("auto", *WEIGHTS):
        raise unknown("precision", name, ("auto", *WEIGHTS))
    if name != "auto":
        return name
    return MIXED if multiplies_in_bfloat16(torch.device(device)) else "32-true"


def precision_for(name: str, weight: torch.Tensor) -> str:
    """The number format for a model with such weights: `auto` leaves all but float32 as they are."""
    precision = precision_of(name, weight.device)
    if name == "auto" and weight.dtype != torch.float32:
        names = {torch.float64: "64-true", torch.bfloat16: "bf16-true", torch.float16: "16-true"}
        return names.get(weight.dtype, str(weight.dtype))
    if weight.dtype != WEIGHTS[precision]:
        raise ConfigError(
            f"precision={name} needs weights of {WEIGHTS[precision]}, not {weight.dtype}; use auto, or cast "
            "the model"
        )
    return precision


def products(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """While this is open, products on a device are in bfloat16 if the precision is mixed."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == MIXED)


def multiplies_in_bfloat16(device: torch.device) -> bool:
    """Whether a device is a GPU that has bfloat16 in its matrix units."""
    return device.type == "cuda" and bool(torch.cuda.is_bf16_supported(including_emulation=False))
