"""Recurrent Memory Transformer: memory tokens that carry information between segments."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmt import compat
    from rmt.core import presets
    from rmt.core.config import CacheConfig, MemoryConfig, ModelConfig
    from rmt.core.model import Output, SegmentModel
    from rmt.core.state import State
    from rmt.core.unroll import unroll
    from rmt.errors import RMTError
    from rmt.train.checkpoint import load

__version__ = "0.1.0"

_HOME = {
    "CacheConfig": "rmt.core.config",
    "MemoryConfig": "rmt.core.config",
    "ModelConfig": "rmt.core.config",
    "Output": "rmt.core.model",
    "RMTError": "rmt.errors",
    "SegmentModel": "rmt.core.model",
    "State": "rmt.core.state",
    "compat": "rmt.compat",
    "load": "rmt.train.checkpoint",
    "presets": "rmt.core.presets",
    "unroll": "rmt.core.unroll",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rmt' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    return module if name in ("compat", "presets") else getattr(module, name)
