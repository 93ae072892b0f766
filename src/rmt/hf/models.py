"""The classes with memory by their names, made when asked for, such as RMTBertModel."""

from __future__ import annotations

import copyreg
from typing import Any


class ClassWithMemory(type):
    """The class of these classes: in no file, and pickled as the plain class they are made of."""


def __getattr__(name: str) -> Any:
    import transformers

    base = getattr(transformers, name.removeprefix("RMT"), None) if name.startswith("RMT") else None
    if base is None:
        raise AttributeError(f"module 'rmt.hf.models' has no attribute {name!r}")
    return with_memory(base)


def with_memory(base: Any) -> Any:
    """The class with memory of a plain class, which is that of a model or of a configuration."""
    from transformers import PreTrainedConfig

    from rmt.hf.wrap import config_class, model_class

    return config_class(base) if issubclass(base, PreTrainedConfig) else model_class(base)


def reduce_class(remembering: ClassWithMemory) -> str | tuple[Any, ...]:
    """How a class is found again: a subclass in a file of its own by its name, as always."""
    if remembering.__module__ != __name__:
        return remembering.__qualname__
    return with_memory, (remembering.__bases__[-1],)


copyreg.pickle(ClassWithMemory, reduce_class)
