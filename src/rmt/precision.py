"""Number formats to compute in, by name, the same for everything that computes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, cast

from rmt.errors import ConfigError, unknown

if TYPE_CHECKING:  # pages of help name the formats, and do without torch
    import torch

Precision = Literal["32-true", "bf16-mixed", "64-true"]  # that a run may have
AskedPrecision = Literal["auto", "32-true", "bf16-mixed", "64-true"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]  # auto = a CUDA device if there is one, else the CPU
MIXED = "bf16-mixed"
NAMES = ("auto", "32-true", MIXED, "64-true")

TO_TRAIN = (
    "number format; auto = bf16-mixed on a GPU that multiplies in bfloat16, else 32-true, and what is stored "
    "where a run goes on"
)
TO_USE = (
    "number format; auto = that of training, but 32-true for bf16-mixed where no GPU multiplies in bfloat16"
)


def precision_of(asked: str, device: torch.device | str, trained: str = "auto") -> Precision:
    """The number format in which a device computes; `trained` is that of a run that is put to use.

    Auto is `trained`, or bf16-mixed where there is none, if the device is a GPU that multiplies in bfloat16;
    elsewhere bf16-mixed becomes 32-true. Any other name stands for itself.
    """
    import torch

    if asked not in NAMES:
        raise unknown("precision", asked, NAMES)
    device = torch.device(device)
    multiplies = multiplies_in_bfloat16(device)
    if asked == MIXED and device.type == "cuda" and not multiplies:
        card = torch.cuda.get_device_name(device)
        raise ConfigError(f"precision={MIXED}: {card} does not multiply in bfloat16; use 32-true or auto")
    if device.type == "mps" and "64-true" in (asked, trained):
        raise ConfigError("precision=64-true: device=mps has no float64; use device=cpu")
    precision = trained if asked == "auto" else asked
    if asked == "auto" and trained in ("auto", MIXED):
        precision = MIXED if multiplies else "32-true"
    return cast(Precision, precision)


def precision_for(name: str, weight: torch.Tensor) -> str:
    """The number format for a model with such weights: `auto` leaves all but float32 as they are."""
    import torch

    precision = precision_of(name, weight.device)
    if name == "auto" and weight.dtype != torch.float32:
        names = {torch.float64: "64-true", torch.bfloat16: "bf16-true", torch.float16: "16-true"}
        return names.get(weight.dtype, str(weight.dtype))
    if weight.dtype != weight_format(precision):
        raise ConfigError(
            f"precision={name} needs weights of {weight_format(precision)}, not {weight.dtype}; use auto, or "
            "cast the model"
        )
    return precision


def weight_format(precision: str) -> torch.dtype:
    """The number format of parameters."""
    import torch

    return torch.float64 if precision == "64-true" else torch.float32


def products(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """While this is open, products on a device are in bfloat16 if the precision is mixed, else as before."""
    import torch

    return torch.autocast(device.type, torch.bfloat16) if precision == MIXED else nullcontext()


def multiplies_in_bfloat16(device: torch.device) -> bool:
    """Whether a device is a GPU that has bfloat16 in its matrix units."""
    import torch

    return device.type == "cuda" and bool(torch.cuda.is_bf16_supported(including_emulation=False))
