"""Number formats by name, the same in every command; `rmt.train.device` decides what auto is."""

from __future__ import annotations

from typing import Literal

Precision = Literal["32-true", "bf16-mixed", "64-true"]  # of Fabric's, those that a run may have
AskedPrecision = Literal["auto", "32-true", "bf16-mixed", "64-true"]

TO_TRAIN = (
    "number format; auto = bf16-mixed on a GPU that multiplies in bfloat16, else 32-true, and what is stored "
    "where a run goes on"
)
TO_USE = (
    "number format; auto = that of training, but 32-true for bf16-mixed where no GPU multiplies in bfloat16"
)
