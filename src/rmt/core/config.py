"""The configuration of a segment model: size zero switches memory or cache off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rmt.config import Interval, above, at_least, check_fields, needless, option
from rmt.errors import ConfigError, unknown

# kind of memory: the class that does what rmt.core.memory.Memory says; others are named as module:Class
MEMORY_KINDS = {
    "tokens": "rmt.core.token_memory:TokenMemory",
    "associative": "rmt.core.associative_memory:AssociativeMemory",
}


def check_kind(name: str, kind: str) -> None:
    """Raise for a kind of memory that is neither known nor the place of a class."""
    if kind not in MEMORY_KINDS and ":" not in kind:
        raise unknown(name, kind, MEMORY_KINDS)


MAX_MEMORY = 1 << 20  # a thousand times what was ever trained; their attention alone would take terabytes
MAX_LAYERS = 4096  # four times the deepest that was ever trained; building them takes seconds


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Memory, carried from segment to segment."""

    kind: str = option("tokens", f"kind of memory: {', '.join(MEMORY_KINDS)}, or module:Class")
    size: int = option(0, "memory tokens per block; 0 = no memory", Interval(0, MAX_MEMORY))
    write: bool = option(True, "append a write block behind the tokens")
    recurrent: bool = option(True, "carry memory to the next segment; off = the initial tokens again")
    init: Literal["distinct", "identical"] = option(
        "distinct", "initial memory tokens drawn apart, or one for all"
    )
    sees_cache: bool = option(False, "memory tokens may attend to the cache")
    predicts: bool = option(
        False, "written memory predicts one special token, the last of the vocabulary (auxiliary loss)"
    )

    def __post_init__(self) -> None:
        check_fields(self, "memory")
        check_kind("memory.kind", self.kind)
        if self.write and not self.recurrent:
            raise ConfigError(
                "memory.write=True with memory.recurrent=False writes what nobody reads; switch write off"
            )
        if self.predicts and not (self.size and self.write):
            raise ConfigError("memory.predicts=True needs a write block; set memory.size and memory.write")

    @property
    def carries_read(self) -> bool:
        """Whether the next segment starts from the read block."""
        return self.recurrent and not self.write


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """Transformer-XL's cache of earlier hidden states."""

    size: int = option(0, "cached positions per layer; 0 = no cache", at_least(0))
    scope: Literal["tokens", "all"] = option("tokens", "cache tokens only, or memory positions too")
    sink: int = option(0, "positions at the start of a sequence that are kept besides", at_least(0))

    def __post_init__(self) -> None:
        check_fields(self, "cache")
        if self.sink and not self.size:
            raise ConfigError(f"cache.sink={self.sink} has no effect without cache.size; leave it out")

    def __str__(self) -> str:
        """The last positions that are kept, and the first."""
        return f"{self.size} + {self.sink}" if self.sink else str(self.size)

    @property
    def rows(self) -> int:
        """How many rows of a layer are kept: the last of a sequence, and its first."""
        return self.size + self.sink


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A segment model: a Transformer, its memory, its cache."""

    vocabulary: int = option(2, "number of different tokens", above(0))
    cutoffs: tuple[int, ...] = option(
        (), "adaptive softmax: where clusters of rarer tokens begin, as 20000,40000; empty = plain softmax"
    )
    div_val: int = option(
        1, "adaptive softmax: each cluster's embedding is narrower by this factor", above(0)
    )
    layers: int = option(2, "Transformer layers", Interval(1, MAX_LAYERS))
    heads: int = option(4, "attention heads per layer", above(0))
    head_width: int = option(32, "width of one head", above(0))
    width: int = option(64, "width of the hidden states", above(0))
    inner_width: int = option(128, "width inside the feed-forward blocks", above(0))
    dropout: float = option(0.0, "dropout probability", Interval(0, 1, high_open=True))
    norm: Literal["pre", "post"] = option("pre", "layer norm before each block, or after (paper)")
    positions: Literal["relative", "rotary", "relative-lm-rmt"] = option(
        "relative", "signed relative distances, rotary, or the original code's wrapped distances"
    )
    init: Literal["small", "scaled", "identity"] = option(
        "small",
        "initial weights N(0, 0.02) as in the original code, of variance 1/inputs, or so that layers add "
        "nothing",
    )
    output: Literal["tied", "gained"] = option(
        "tied", "logits by the token table as it is, or times a learned gain that starts at zero"
    )
    memory: MemoryConfig = option(MemoryConfig(), "memory tokens")
    cache: CacheConfig = option(CacheConfig(), "cache of hidden states")

    def __post_init__(self) -> None:
        check_fields(self, "model")
        needless(self, "div_val", bool(self.cutoffs), "model.cutoffs")
        field = "head_width" if self.positions == "rotary" else "width"
        if getattr(self, field) % 2:
            raise ConfigError(
                f"model.{field}={getattr(self, field)} must be even for {self.positions} positions"
            )
