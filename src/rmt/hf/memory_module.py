"""The memory of a pretrained model: as wide as what it lives in, brought to the width of embeddings."""

from __future__ import annotations

from typing import Any

from torch import nn

from rmt.core.memory import Memory, build_memory
from rmt.errors import ConfigError
from rmt.hf.families import Family, layer_width, layers_path, output_width, segment_backbone
from rmt.hf.settings import MemorySettings, layout_of, memory_config


def memory_module(model: Any, family: Family, settings: MemorySettings) -> Memory:
    """The memory that settings ask for; where embeddings are narrower, it has an entrance to their width.

    Memory is as wide as a backbone's outputs, which it hands on; in the layers, as wide as they are.
    """
    backbone = segment_backbone(model, family)
    embedded = backbone.get_input_embeddings().weight.shape[1]
    layers = len(backbone.get_submodule(layers_path(backbone, family)))
    config = memory_config(settings, layout_of(family, settings.layout))
    memory = build_memory(config, output_width(model.config, embedded), layers)
    width = layer_width(model.config, embedded)
    if memory.in_layers and memory.width != width:
        require_no_outputs(memory, width)
        memory = build_memory(config, width, layers)
    if memory.width != embedded:
        memory.entrance = nn.Linear(memory.width, embedded, bias=False)
    return memory


def embedding_width(memory: Memory) -> int:
    """How wide embeddings are, and so the blocks of memory that enter a segment among them."""
    entrance: Any = getattr(memory, "entrance", None)
    return memory.width if entrance is None else int(entrance.out_features)


def require_no_outputs(memory: Memory, width: int) -> None:
    """Refuse memory of a backbone's outputs that lives in layers of another width as well."""
    if type(memory).carry is not Memory.carry:
        raise ConfigError(
            f"kind={memory.config.kind!r} lives in layers of width {width} and hands on outputs of width "
            f"{memory.width}; use kind='tokens'"
        )
