"""Where to compute."""

from __future__ import annotations

import torch

from rmt.errors import ConfigError


def device_of(name: str) -> str:
    """`cuda` or `cpu` for auto, cuda or cpu; what is not there is an error."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda: there is no CUDA device here; use cpu or auto")
    return name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
