"""Transformer-XL's cache in front of a wrapped decoder's segment (section 3).

A pretrained layer makes keys and values of rows by itself. So cached rows go through the backbone once more,
in front of the segment: each layer gets the inputs that they had there, and what it adds to them is dropped.
"""

# B batch · C rows of the cache · n rows behind it · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rmt.core.cache import LayerInputs
from rmt.core.memory import LayerMemory
from rmt.errors import ConfigError
from rmt.hf.families import Family, segment_backbone
from rmt.hf.settings import MemorySettings


class CachedLayerInputs:
    """Around the layers: the first rows get their cached inputs, and the inputs of all rows are kept."""

    def __init__(self, cache: LayerInputs, memory: LayerMemory | None):
        """`cache` is N × (B, C, D), `memory` what lives in the layers besides."""
        self.cache, self.memory = cache, memory
        self.inputs: LayerInputs = ()  # of the layers so far, (B, C + n, D)

    def before(self, layer: int, hidden: Tensor) -> Tensor:
        """The input of a layer (B, C + n, D)."""
        if self.memory is not None:
            hidden = self.memory.before(layer, hidden)
        cached = self.cache[layer].to(hidden)
        hidden = torch.cat([cached, hidden[:, cached.shape[1] :]], dim=1)
        self.inputs = *self.inputs, hidden.detach().to(self.cache[layer])
        return hidden

    def after(self, layer: int, hidden: Tensor) -> None:
        """What comes out of a layer is for memory to see."""
        if self.memory is not None:
            self.memory.after(layer, hidden)


def require_cachable(model: Any, family: Family, settings: MemorySettings) -> None:
    """Refuse a cache where rows of an earlier segment cannot stand in front of the next one."""
    if not settings.cache:
        return
    name = type(model).__name__
    if family.kind != "decoder":
        raise ConfigError(
            f"cache={settings.cache} is for decoders: in {name} a token sees its whole segment; use cache=0"
        )
    if settings.prefix or settings.suffix:
        raise ConfigError(
            f"cache={settings.cache} would hold the special tokens of every segment; use "
            "special_tokens=(0, 0)"
        )
    table = learned_positions(model, family)
    if table:
        raise ConfigError(
            f"cache={settings.cache}: {name} adds learned positions to its embeddings ({table}), and cached "
            "rows would bring theirs along; use cache=0"
        )


def learned_positions(model: Any, family: Family) -> str:
    """The name of a decoder's table of learned positions; empty where it has none."""
    backbone = segment_backbone(model, family)
    config: Any = backbone.config
    words, positions = backbone.get_input_embeddings(), getattr(config, "max_position_embeddings", None)  # type: ignore[operator]
    for name, part in backbone.named_modules():
        if isinstance(part, nn.Embedding) and part is not words and part.num_embeddings >= (positions or 0):
            return name
    return ""
