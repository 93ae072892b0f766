"""Where to compute, and in which number format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from rmt.errors import ConfigError
from rmt.precision import AskedPrecision, Precision, precision_of

if TYPE_CHECKING:
    from rmt.train.config import RunConfig


def device_of(name: str) -> str:
    """What stands for auto, which is cuda or cpu, or the name itself; what is not there is an error."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda: there is no CUDA device here; use cpu or auto")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device=mps: torch has no Apple GPU here; use cpu or auto")
    return name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu"


def precision_to_train(asked: AskedPrecision, stored: AskedPrecision, device: str) -> Precision:
    """The number format of a run; one that goes on has `stored` it, and auto accepts that on any device."""
    if stored != "auto" and asked in ("auto", stored):
        return stored
    return precision_of(asked, device_of(device))


def decided(config: RunConfig) -> RunConfig:
    """The same configuration; if its number format is auto, with that of its device."""
    if config.precision != "auto":
        return config
    return replace(config, precision=precision_of("auto", device_of(config.device)))


def device_name(device: torch.device | str) -> str:
    """A device as its maker calls it."""
    names = {"cpu": "the CPU", "mps": "Apple's GPU"}
    return names.get(torch.device(device).type) or torch.cuda.get_device_name(device)
