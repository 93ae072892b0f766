"""The settings of memory around a pretrained model, kept in its configuration as `config.rmt`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from rmt.config import check_fields, from_dict, option, positive
from rmt.core.bptt import Depth
from rmt.core.config import MEMORY_KINDS, CacheConfig, MemoryConfig, check_kind
from rmt.core.memory import memory_class
from rmt.errors import ConfigError, unknown
from rmt.hf.families import Family, Layout, limit_of, longest_segment

Overlong = Literal["error", "truncate"]
Alignment = Literal["left", "right", "even"]
Scale = Literal["free", "embedding"]
USUAL_SINK = 4  # tokens, as Xiao et al. (2024) found to be enough


@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """How a text is cut into segments and what is carried between them."""

    memory: int = option(10, "memory tokens; 0 = none")
    kind: str = option("tokens", f"kind of memory: {', '.join(MEMORY_KINDS)}, or module:Class")
    cache: int = option(0, "cached positions per layer, of decoders; 0 = none")
    sink: int = option(0, "positions at the start of a text that the cache keeps besides")
    segment_length: int = option(1, "tokens of text in a segment, without memory and special tokens")
    max_segments: int | None = option(None, "the most segments of one text; none = any number")
    overlong: Overlong = option("error", "what a text of more segments is")
    alignment: Alignment = option("left", "the short segment is the last, the first, or all are equally long")
    bptt: Depth = option("full", "previous segments that a loss reaches through memory")
    checkpoint: bool = option(False, "compute a segment again in the backward pass instead of keeping it")
    layout: str = option("paper", "where memory stands in a segment")
    scale: Scale = option("free", "memory enters as it left, or brought to the size of token embeddings")
    embedding_rms: float = option(1.0, "root mean square of the token embeddings: initial memory's size")
    prefix: int = option(0, "special tokens at the start of a text, repeated in each segment")
    suffix: int = option(0, "special tokens at its end, repeated in each segment")

    def __post_init__(self) -> None:
        check_fields(self, "add_memory")
        positive("memory", self.memory, zero=True)
        check_kind("kind", self.kind)
        positive("cache", self.cache, zero=True)
        positive("sink", self.sink, zero=True)
        if self.sink and not self.cache:
            raise ConfigError(f"sink={self.sink} has no effect without a cache; leave it out, or set cache=")
        positive("segment_length", self.segment_length)
        if self.max_segments is not None:
            positive("max_segments", self.max_segments)
        elif self.overlong == "truncate":
            raise ConfigError("overlong='truncate' has no effect without max_segments; leave it out")
        if self.bptt != "full":
            positive("bptt", self.bptt, zero=True)

    @cached_property
    def cache_config(self) -> CacheConfig:
        """What is cached: the positions of tokens."""
        return CacheConfig(size=self.cache, sink=self.sink)


def require_effects(settings: MemorySettings) -> None:
    """Refuse settings of memory tokens where there are none."""
    if settings.memory or settings.kind != "tokens":
        return
    for name, value, off in (("bptt", settings.bptt, "full"), ("scale", settings.scale, "free")):
        if value != off:
            raise ConfigError(f"{name}={value!r} has no effect with memory=0; leave it out")


def usual_sink(cache: int, sink: int | None) -> int:
    """How many first tokens a cache keeps besides: as many as are asked for, else a few."""
    if sink is None:
        return USUAL_SINK if cache else 0
    return sink


def settings_of(config: Any) -> MemorySettings:
    """The settings in a configuration."""
    if config.rmt is None:
        raise ConfigError(
            "config.rmt is missing: these are weights without memory; load them with the plain class, then "
            "rmt.add_memory(model)"
        )
    return from_dict(MemorySettings, config.rmt)


def layout_of(family: Family, name: str) -> Layout:
    """A layout of the family by its name."""
    if name not in family.layouts:
        raise unknown("layout", name, family.layouts)
    return family.layouts[name]


def memory_config(settings: MemorySettings, layout: Layout) -> MemoryConfig:
    """The memory that settings ask for: tokens that a layout only reads are handed on as they are read."""
    write = layout.write or memory_class(settings.kind).always_writes
    return MemoryConfig(kind=settings.kind, size=settings.memory, write=write)


def require_fitting(config: Any, family: Family, settings: MemorySettings, memory: int) -> None:
    """Refuse memory, which takes so many positions, or segments beyond the positions of the model."""
    limit, most = limit_of(config, family), longest_segment(config, family, memory)
    if limit is None or settings.segment_length <= most:
        return
    rest = limit - most
    if most < 1:
        takes = f"memory={settings.memory} leaves no room for text: it takes"
        if settings.cache:
            takes = (
                f"memory={settings.memory}, cache={settings.cache} and sink={settings.sink} leave no room "
                "for text: they take"
            )
        raise ConfigError(
            f"{takes} {rest} of the model's {limit} positions with the special tokens; choose less"
        )
    others = "memory, cache" if settings.cache else "memory"
    raise ConfigError(
        f"segment_length={settings.segment_length} is too long: the model has {limit} positions, "
        f"{rest} of them for {others} and special tokens; choose at most {most}"
    )
