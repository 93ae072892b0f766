"""Models of other code bases as ours."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "lm_rmt":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("rmt.compat.lm_rmt")
