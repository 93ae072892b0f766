"""What memory would be for a pretrained model, told from its configuration alone."""

from __future__ import annotations

from typing import Any

import torch

from rmt.documents.classifier import quietly
from rmt.hf import add_memory
from rmt.hf.families import FAMILIES, Family, family_of, limit_of


def describe(backbone: str, memory: int, layout: str | None) -> dict[str, str]:
    """Lines about a backbone by their names."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    config = quietly(f"backbone={backbone!r}", transformers.AutoConfig.from_pretrained, backbone)
    with torch.device("meta"):  # shapes without weights
        plain = quietly(f"backbone={backbone!r}", transformers.AutoModel.from_config, config)
    if config.model_type.startswith("rmt_"):
        model = plain
    else:
        family_of(plain)
        model = add_memory(plain, memory=memory, layout=layout)
    family, settings = FAMILIES[config.model_type.removeprefix("rmt_")], model.settings
    limit = limit_of(config, family)
    weights = sum(one.numel() for name, one in model.named_parameters() if not name.startswith("memory."))
    width = model.memory.weight.shape[1]
    return {
        "model": f"{type(model).__name__}, {family.kind}, {config.num_hidden_layers} layers of width {width}",
        "layout": f"{settings.layout}: {drawn(family, model)}; possible: {', '.join(family.layouts)}",
        "limit": "none (relative positions)" if limit is None else f"{limit} positions",
        "segment": f"{settings.segment_length} tokens of text beside memory and special tokens",
        "mask": mask_of(family, model),
        "attention": attention_of(family, model),
        "memory": f"{settings.memory} × {width} = {settings.memory * width:,} parameters",
        "carried": f"{settings.memory * width * 4:,} bytes per document in float32, however long it is",
        "trained": f"all {weights:,} weights of the backbone, its head, and memory; with an adapter: "
        "modules_to_save=['memory']",
        "heads": ", ".join(family.heads),
    }


def drawn(family: Family, model: Any) -> str:
    """A segment as a row of words."""
    size, layout = model.settings.memory, model.layout
    block = [f"mem×{size}"] if size else []
    start, end = ["[CLS]"] * family.prefix, ["[SEP]"] * family.suffix
    separator = ["[SEP]"] * (layout.separator if size else 0)
    words = [*start[: layout.after], *block, *start[layout.after :], *separator, "text", *end]
    return " ".join([*words, *block] if layout.write else words)


def mask_of(family: Family, model: Any) -> str:
    if family.kind != "decoder":
        return "everything sees everything"
    if model.layout.blocks:
        return "causal; each memory block sees itself whole, as in the paper"
    return "causal throughout"


def attention_of(family: Family, model: Any) -> str:
    """The implementations of attention that can be used."""
    known = ["eager", *(["sdpa"] if model._supports_sdpa else [])]
    if (
        not model.layout.blocks
        and model._supports_flash_attn
        and not hasattr(model.config, "local_attention")
    ):
        known.append("flash_attention_2")
    return ", ".join(known)
