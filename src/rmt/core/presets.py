"""The paper's five models as configurations of one."""

from __future__ import annotations

from typing import Any

from rmt.config import check
from rmt.core.config import CacheConfig, MemoryConfig, ModelConfig
from rmt.errors import ConfigError, unknown

# name: (has memory, has cache)
PRESETS = {
    "baseline": (False, False),
    "memory_transformer": (True, False),
    "transformer_xl": (False, True),
    "rmt": (True, False),
    "transformer_xl_rmt": (True, True),
}


def preset(name: str, *, memory: int = 0, cache: int = 0, **settings: Any) -> ModelConfig:
    """The configuration of a model of the paper with `memory` tokens and `cache` positions."""
    check_preset(name, memory, cache)
    recurrent = name != "memory_transformer"
    return ModelConfig(
        memory=MemoryConfig(size=memory, write=recurrent, recurrent=recurrent),
        cache=CacheConfig(size=cache),
        **settings,
    )


def check_preset(name: str, memory: int, cache: int) -> None:
    """Raise unless the sizes are those of the model: what it has is above zero, what it has not is zero."""
    if name not in PRESETS:
        raise unknown("model", name, PRESETS)
    for field, value, wanted in zip(("memory", "cache"), (memory, cache), PRESETS[name], strict=True):
        check(value, int, field)
        if value and not wanted:
            raise ConfigError(f"{field}={value} has no effect: the {name} model has no {field}; leave it out")
        if wanted and value < 1:
            raise ConfigError(f"{field}={value} is too small: the {name} model needs at least 1")


def baseline(**settings: Any) -> ModelConfig:
    """A Transformer that forgets everything at the border of a segment."""
    return preset("baseline", **settings)


def memory_transformer(memory: int, **settings: Any) -> ModelConfig:
    """Memory tokens in front of every segment, the same ones each time."""
    return preset("memory_transformer", memory=memory, **settings)


def transformer_xl(cache: int, **settings: Any) -> ModelConfig:
    """The hidden states of the last `cache` tokens, without gradient."""
    return preset("transformer_xl", cache=cache, **settings)


def rmt(memory: int, **settings: Any) -> ModelConfig:
    """`memory` tokens written at the end of a segment and read at the start of the next."""
    return preset("rmt", memory=memory, **settings)


def transformer_xl_rmt(memory: int, cache: int, **settings: Any) -> ModelConfig:
    """Both: the cache for what is near, memory for what is far."""
    return preset("transformer_xl_rmt", memory=memory, cache=cache, **settings)
