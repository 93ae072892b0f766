"""State dicts of the original LM-RMT and Transformer-XL code as segment models, numerically the same.

They are taken for models with the norm behind each layer, no `clamp_len` and no `same_length`, as the paper
trained them: a state dict does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate, count, takewhile

import torch
from torch import Tensor

from rmt.core.config import CacheConfig, MemoryConfig, ModelConfig
from rmt.core.model import SegmentModel
from rmt.errors import CheckpointError, ConfigError

EMBEDDING, OUTPUT_BIAS = "word_emb.emb_layers.0.weight", "crit.out_layers.0.bias"
CLUSTERS = "crit.cluster_weight"
FEED_FORWARD = "layers.0.pos_ff.CoreNet.0.weight"
NAMES = {
    "r_w_bias": "backbone.positions.content_bias",
    "r_r_bias": "backbone.positions.position_bias",
    "mem_tokens": "memory.tokens.weight",
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
BUFFER = "pos_emb.inv_freq"


def load(
    state_dict: Mapping[str, Tensor],
    cache: int = 0,
    memory_sees_cache: bool = False,
    write: bool = True,
    cutoffs: tuple[int, ...] = (),
) -> SegmentModel:
    """The model of an original checkpoint, in evaluation mode.

    Sizes are read off the shapes; what a state dict does not tell are the `cache` size (`mem_len`),
    `memory_sees_cache` (`read_mem_from_cache`), `write` (`mem_at_end`) and, for an adaptive softmax with one
    table, its `cutoffs`.
    """
    config = config_of(state_dict, cache, memory_sees_cache, write, tuple(cutoffs))
    model = SegmentModel(config).to(state_dict[EMBEDDING].dtype)
    tensors = dict(renamed(state_dict))
    for name, parameter in model.state_dict().items():
        if not parameter.numel():
            tensors[name] = parameter
        elif name not in tensors:
            raise CheckpointError(f"the state dict has no tensor for {name!r}: it is not whole")
        elif tensors[name].shape != parameter.shape:
            shapes = f"{tuple(tensors[name].shape)}, expected {tuple(parameter.shape)}"
            raise CheckpointError(f"the tensor for {name!r} has shape {shapes}: not the original layout")
    model.load_state_dict(tensors)
    return model.eval()


def config_of(
    state_dict: Mapping[str, Tensor],
    cache: int,
    memory_sees_cache: bool,
    write: bool,
    cutoffs: tuple[int, ...],
) -> ModelConfig:
    """The configuration that an original state dict was trained with."""
    for name in (EMBEDDING, "r_w_bias", FEED_FORWARD):
        if name not in state_dict:
            raise CheckpointError(f"not a state dict of LM-RMT or Transformer-XL: it has no {name!r}")
    inner_width, width = state_dict[FEED_FORWARD].shape
    heads, head_width = state_dict["r_w_bias"].shape
    memory = state_dict["mem_tokens"].shape[0] if "mem_tokens" in state_dict else 0
    cutoffs, div_val = clusters_of(state_dict, cutoffs)
    return ModelConfig(
        vocabulary=sum(len(table) for table in tables_of(state_dict)),
        cutoffs=cutoffs,
        div_val=div_val,
        width=width,
        heads=heads,
        head_width=head_width,
        layers=1 + max(int(match[1]) for name in state_dict if (match := re.match(r"layers\.(\d+)\.", name))),
        inner_width=inner_width,
        norm="post",
        positions="relative-lm-rmt",
        memory=MemoryConfig(size=memory, write=write, init="identical", sees_cache=memory_sees_cache),
        cache=CacheConfig(size=cache, scope="all"),
    )


def clusters_of(state_dict: Mapping[str, Tensor], cutoffs: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Cutoffs and div_val: read off the tables where each cluster has one, else the `cutoffs` given."""
    tables = tables_of(state_dict)
    tails = len(state_dict[CLUSTERS]) if CLUSTERS in state_dict else 0
    if len(tables) == 1:
        require_cutoffs(cutoffs, tails)
        return cutoffs, 1
    if len(tables) != tails + 1:
        raise CheckpointError(f"{len(tables)} embedding tables for {tails} tail clusters: it is not whole")
    starts = tuple(accumulate(len(table) for table in tables[:-1]))
    if cutoffs and cutoffs != starts:
        raise ConfigError(f"cutoffs={cutoffs} are not the checkpoint's, {starts}; leave them out")
    widths = [table.shape[1] for table in tables]
    for div_val in range(2, widths[0] + 1):
        if widths == [widths[0] // div_val**cluster for cluster in range(len(widths))]:
            return starts, div_val
    raise CheckpointError(f"embedding tables {widths} wide: no div_val makes them; not the original layout")


def require_cutoffs(cutoffs: tuple[int, ...], tails: int) -> None:
    """Refuse another number of cutoffs than a checkpoint has tail clusters."""
    if cutoffs and not tails:
        raise ConfigError(f"cutoffs={cutoffs}, but the checkpoint has no adaptive softmax; leave them out")
    if len(cutoffs) != tails:
        raise ConfigError(
            f"cutoffs={cutoffs} must be the {tails} word numbers where the tail clusters of this checkpoint "
            "start, which it does not tell; WikiText-103 has cutoffs=(20000, 40000, 200000)"
        )


def tables_of(state_dict: Mapping[str, Tensor]) -> list[Tensor]:
    """The embedding tables: one, or one for each cluster."""
    names = (f"word_emb.emb_layers.{table}.weight" for table in count())
    return [state_dict[name] for name in takewhile(state_dict.__contains__, names)]


def renamed(state_dict: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of an original state dict under our names."""
    names = NAMES | embedding_names(len(tables_of(state_dict)), CLUSTERS in state_dict)
    for name, tensor in state_dict.items():
        layer = re.match(r"layers\.(\d+)\.(.*)", name)
        if name == BUFFER or is_tied_copy(name, state_dict):
            continue
        if name == "mem_tokens":
            yield names[name], tensor.squeeze(1)
        elif name in names:
            yield names[name], tensor
        elif layer and layer[2] in LAYER_NAMES:
            yield f"backbone.layers.{layer[1]}.{LAYER_NAMES[layer[2]]}", tensor
        else:
            raise CheckpointError(f"unexpected tensor {name!r} in the state dict: not the original layout")


def embedding_names(tables: int, adaptive: bool) -> dict[str, str]:
    """Our names for the embedding: plain, or adaptive with one table or one for each cluster."""
    if not adaptive:
        return {EMBEDDING: "embedding.weight", OUTPUT_BIAS: "embedding.bias"}
    names = {CLUSTERS: "embedding.clusters.weight", "crit.cluster_bias": "embedding.clusters.bias"}
    if tables == 1:
        return names | {EMBEDDING: "embedding.words.weight", OUTPUT_BIAS: "embedding.words.bias"}
    names["crit.out_projs.0"] = "embedding.words.head_projection.weight"
    for table in range(tables):
        names[f"word_emb.emb_layers.{table}.weight"] = f"embedding.words.tables.{table}.weight"
        names[f"word_emb.emb_projs.{table}"] = f"embedding.words.projections.{table}.weight"
        names[f"crit.out_layers.{table}.bias"] = f"embedding.words.tables.{table}.bias"
    return names


def is_tied_copy(name: str, state_dict: Mapping[str, Tensor]) -> bool:
    """Whether a tensor is the embedding's again, at the output; the head's output projection is its own."""
    if match := re.fullmatch(r"crit\.out_layers\.(\d+)\.weight", name):
        source = f"word_emb.emb_layers.{match[1]}.weight"
    elif match := re.fullmatch(r"crit\.out_projs\.([1-9]\d*)", name):
        source = f"word_emb.emb_projs.{match[1]}"
    else:
        return False
    if source not in state_dict or not torch.equal(state_dict[name], state_dict[source]):
        raise CheckpointError(f"{name!r} is not {source!r}: untied output layers cannot be imported")
    return True
