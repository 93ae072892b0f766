"""Recurrent Memory Transformer: memory tokens that carry information between segments."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmt import compat
    from rmt.core import presets
    from rmt.core.bptt import bptt
    from rmt.core.config import CacheConfig, MemoryConfig, ModelConfig
    from rmt.core.model import Output, SegmentModel
    from rmt.core.state import State
    from rmt.core.unroll import unroll
    from rmt.errors import RMTError
    from rmt.hf import add_memory
    from rmt.infer.session import Session
    from rmt.train.checkpoint import load
__version__ = "1.0.0"
_NAMES = {
    "rmt.core.bptt": "bptt",
    "rmt.core.config": "CacheConfig MemoryConfig ModelConfig",
    "rmt.core.model": "Output SegmentModel",
    "rmt.core.presets": "presets",
    "rmt.core.state": "State",
    "rmt.core.unroll": "unroll",
    "rmt.errors": "RMTError",
    "rmt.hf": "add_memory",
    "rmt.infer.session": "Session",
    "rmt.train.checkpoint": "load",
}
_HOME = {"compat": "rmt.compat"} | {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = ["CacheConfig", "MemoryConfig", "ModelConfig", "Output", "RMTError", "SegmentModel", "Session"]
__all__ += ["State", "add_memory", "bptt", "compat", "load", "presets", "unroll"]  # type checkers read these
__dir__ = [*__all__, "__doc__", "__version__"].copy  # what dir(rmt) lists


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rmt' has no attribute {name!r}")
    return getattr(module := importlib.import_module(_HOME[name]), name, module)  # or a module itself
