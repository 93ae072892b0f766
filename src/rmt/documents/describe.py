"""What memory would be for a pretrained model, told from its configuration alone."""

from __future__ import annotations

from typing import Any

import torch

from rmt.documents.pretrained import PretrainedSource
from rmt.errors import ConfigError
from rmt.hf import add_memory
from rmt.hf.families import FAMILIES, Family, family_of, limit_of
from rmt.location import trusts


def describe(backbone: str, **asked: Any) -> dict[str, str]:
    """Lines about a backbone by their names, with what is asked of `rmt.add_memory`."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    source = PretrainedSource("backbone", backbone)
    config = source.config()
    with torch.device("meta"):  # shapes without weights
        plain = source.call_reporting_errors(
            transformers.AutoModel.from_config, config, trust_remote_code=trusts()
        )
    wanted = {name: value for name, value in asked.items() if value is not None}
    if config.model_type.startswith("rmt_"):
        for name, value in wanted.items():
            raise ConfigError(
                f"{name}={value} has no effect: {backbone!r} has its memory already; leave it out"
            )
        model = plain
    else:
        family_of(plain)
        model = add_memory(plain, **wanted)
    family, settings = FAMILIES[config.model_type.removeprefix("rmt_")], model.settings
    limit, width = limit_of(config, family), model.memory.width
    parameters = model.named_parameters()
    weights = sum(weight.numel() for name, weight in parameters if not name.startswith("memory."))
    return {
        "model": f"{type(model).__name__}, {family.kind}, {config.num_hidden_layers} layers of width {width}",
        "layout": f"{settings.layout}: {drawn(family, model)}; possible: {', '.join(family.layouts)}",
        "limit": "none (relative positions)" if limit is None else f"{limit} positions",
        "segment": f"{settings.segment_length} tokens of text beside memory"
        f"{', cache' if settings.cache else ''} and special tokens",
        "mask": mask_of(family, model),
        "attention": attention_of(family, model),
        "memory": memory_of(model),
        "cache": cache_of(model),
        "carried": f"{carried_numbers(model) * 4:,} bytes per document in float32, however long it is",
        "trained": f"all {weights:,} weights of the backbone, its head, and memory; with an adapter: "
        "modules_to_save=['memory']",
        "heads": ", ".join(family.heads),
    }


def drawn(family: Family, model: Any) -> str:
    """A segment as a row of words."""
    memory, layout = model.memory, model.layout
    read, write = ([f"mem×{size}"] if size else [] for size in (memory.read_size, memory.write_size))
    start, end = ["[CLS]"] * family.prefix, ["[SEP]"] * family.suffix
    separator = ["[SEP]"] * layout.separator
    return " ".join([*start[: layout.after], *read, *start[layout.after :], *separator, "text", *end, *write])


def memory_of(model: Any) -> str:
    """The parameters of memory; of memory tokens, how many there are and how wide."""
    settings, count = model.settings, sum(weight.numel() for weight in model.memory.parameters())
    form = f"{settings.memory} × {model.memory.width} =" if settings.kind == "tokens" else f"{settings.kind},"
    return f"{form} {count:,} parameters"


def cache_of(model: Any) -> str:
    """What every layer sees of earlier segments."""
    settings = model.settings
    if not settings.cache:
        return "none"
    return f"the last {settings.cache} tokens and the first {settings.sink} of a text, in every layer"


def carried_numbers(model: Any) -> int:
    """How many numbers go from one segment of a document to the next."""
    state = model.initial_state(1)
    return sum(tensor.numel() for tensor in state.flat()) - state.cached.numel()


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
