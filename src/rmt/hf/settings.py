"""The settings of memory around a pretrained model, kept in its configuration as `config.rmt`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rmt.config import check_fields, from_dict, option, positive
from rmt.errors import ConfigError, unknown
from rmt.hf.families import Family, Layout, limit_of, longest_segment, taken


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a text is cut into segments and what is carried between them."""

    memory: int = option(10, "memory tokens; 0 = none")
    segment_length: int = option(1, "tokens of text in a segment, without memory and special tokens")
    max_segments: int | None = option(None, "the most segments of one text; none = any number")
    overlong: Literal["error", "truncate"] = option("error", "what a text of more segments is")
    alignment: Literal["left", "right", "even"] = option(
        "left", "the short segment is the last, the first, or all are equally long"
    )
    bptt: int | Literal["full"] = option("full", "previous segments that a loss reaches through memory")
    checkpoint: bool = option(False, "compute a segment again in the backward pass instead of keeping it")
    layout: str = option("paper", "where memory stands in a segment")
    scale: Literal["free", "embedding"] = option(
        "free", "memory enters as it left, or brought to the size of token embeddings"
    )
    embedding_rms: float = option(1.0, "root mean square of the token embeddings: initial memory's size")
    prefix: int = option(0, "special tokens at the start of a text, repeated in each segment")
    suffix: int = option(0, "special tokens at its end, repeated in each segment")

    def __post_init__(self) -> None:
        check_fields(self, "add_memory")
        positive("memory", self.memory, zero=True)
        positive("segment_length", self.segment_length)
        if self.max_segments is not None:
            positive("max_segments", self.max_segments)
        elif self.overlong == "truncate":
            raise ConfigError("overlong='truncate' has no effect without max_segments; leave it out")
        if self.bptt != "full":
            positive("bptt", self.bptt, zero=True)


def settings_of(config: Any) -> Settings:
    """The settings in a configuration."""
    return from_dict(Settings, config.rmt)


def layout_of(family: Family, name: str) -> Layout:
    """A layout of the family by its name."""
    if name not in family.layouts:
        raise unknown("layout", name, family.layouts)
    return family.layouts[name]


def require_fitting(config: Any, family: Family, layout: Layout, settings: Settings) -> None:
    """Refuse memory or segments beyond the model's positions."""
    limit, most = limit_of(config, family), longest_segment(config, family, layout, settings.memory)
    if limit is None or settings.segment_length <= most:
        return
    rest = taken(family, layout, settings.memory)
    if most < 1:
        raise ConfigError(
            f"memory={settings.memory} leaves no room for text: it takes {rest} of the model's {limit} "
            "positions with the special tokens; choose less"
        )
    raise ConfigError(
        f"segment_length={settings.segment_length} is too long: the model has {limit} positions, "
        f"{rest} of them for memory and special tokens; choose at most {most}"
    )
