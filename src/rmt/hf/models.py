"""The classes with memory by their names, made when asked for, such as RMTBertModel."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import transformers

    from rmt.hf.wrap import config_class, model_class

    base = getattr(transformers, name.removeprefix("RMT"), None) if name.startswith("RMT") else None
    if base is None:
        raise AttributeError(f"module 'rmt.hf.models' has no attribute {name!r}")
    return config_class(base) if issubclass(base, transformers.PreTrainedConfig) else model_class(base)
