"""State dicts of the original LM-RMT and Transformer-XL code as segment models, numerically the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from rmt.core.config import CacheConfig, MemoryConfig, ModelConfig
from rmt.core.model import SegmentModel
from rmt.errors import CheckpointError

EMBEDDING = "word_emb.emb_layers.0.weight"
NAMES = {
    EMBEDDING: "embedding.weight",
    "crit.out_layers.0.bias": "embedding.bias",
    "r_w_bias": "backbone.positions.content_bias",
    "r_r_bias": "backbone.positions.position_bias",
    "mem_tokens": "memory.tokens",
}
LAYER_NAMES = {
    "dec_attn.qkv_net.weight": "attention.qkv.weight",
    "dec_attn.o_net.weight": "attention.out.weight",
    "dec_attn.r_net.weight": "attention.positions.project.weight",
    "dec_attn.layer_norm.weight": "attention_norm.weight",
    "dec_attn.layer_norm.bias": "attention_norm.bias",
    "pos_ff.CoreNet.0.weight": "feed_forward.0.weight",
    "pos_ff.CoreNet.0.bias": "feed_forward.0.bias",
    "pos_ff.CoreNet.3.weight": "feed_forward.3.weight",
    "pos_ff.CoreNet.3.bias": "feed_forward.3.bias",
    "pos_ff.layer_norm.weight": "feed_forward_norm.weight",
    "pos_ff.layer_norm.bias": "feed_forward_norm.bias",
}
DERIVED = ("crit.out_layers.0.weight", "pos_emb.inv_freq")  # a tied copy and a buffer


def load(
    state_dict: Mapping[str, Tensor], cache: int = 0, memory_sees_cache: bool = False, write: bool = True
) -> SegmentModel:
    """The model of an original checkpoint, in evaluation mode.

    Sizes are read off the shapes; what a state dict does not tell are the `cache` size (`mem_len`),
    `memory_sees_cache` (`read_mem_from_cache`) and `write` (`mem_at_end`).
    """
    config = config_of(state_dict, cache, memory_sees_cache, write)
    model = SegmentModel(config).to(state_dict[EMBEDDING].dtype)
    found = dict(renamed(state_dict))
    for name, own in model.state_dict().items():
        if not own.numel():
            found[name] = own
        elif name not in found:
            raise CheckpointError(f"the state dict has no tensor for {name!r}: it is not whole")
        elif found[name].shape != own.shape:
            shapes = f"{tuple(found[name].shape)}, expected {tuple(own.shape)}"
            raise CheckpointError(f"the tensor for {name!r} has shape {shapes}: not the original layout")
    model.load_state_dict(found)
    return model.eval()


def config_of(
    state_dict: Mapping[str, Tensor], cache: int, memory_sees_cache: bool, write: bool
) -> ModelConfig:
    """The configuration that an original state dict was trained with."""
    for name in (EMBEDDING, "r_w_bias", "layers.0.pos_ff.CoreNet.0.weight"):
        if name not in state_dict:
            raise CheckpointError(f"not a state dict of LM-RMT or Transformer-XL: it has no {name!r}")
    vocabulary, width = state_dict[EMBEDDING].shape
    heads, head_width = state_dict["r_w_bias"].shape
    memory = state_dict["mem_tokens"].shape[0] if "mem_tokens" in state_dict else 0
    return ModelConfig(
        vocabulary=vocabulary,
        width=width,
        heads=heads,
        head_width=head_width,
        layers=1 + max(int(match[1]) for name in state_dict if (match := re.match(r"layers\.(\d+)\.", name))),
        inner_width=state_dict["layers.0.pos_ff.CoreNet.0.weight"].shape[0],
        norm="post",
        positions="relative-lm-rmt",
        memory=MemoryConfig(size=memory, write=write, init="identical", sees_cache=memory_sees_cache),
        cache=CacheConfig(size=cache, scope="all"),
    )


def renamed(state_dict: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of an original state dict under our names."""
    tied = state_dict.get("crit.out_layers.0.weight", state_dict[EMBEDDING])
    if not torch.equal(tied, state_dict[EMBEDDING]):
        raise CheckpointError(
            "'crit.out_layers.0.weight' is not the embedding: untied output layers cannot be imported"
        )
    for name, tensor in state_dict.items():
        layer = re.match(r"layers\.(\d+)\.(.*)", name)
        if name in DERIVED:
            continue
        if name == "mem_tokens":
            yield NAMES[name], tensor.squeeze(1)
        elif name in NAMES:
            yield NAMES[name], tensor
        elif layer and layer[2] in LAYER_NAMES:
            yield f"backbone.layers.{layer[1]}.{LAYER_NAMES[layer[2]]}", tensor
        elif name.startswith("crit.cluster"):
            raise CheckpointError(f"{name!r}: checkpoints with an adaptive softmax cannot be imported yet")
        else:
            raise CheckpointError(f"unexpected tensor {name!r} in the state dict: not the original layout")
