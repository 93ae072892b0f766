"""What differs between pretrained families: special tokens, the limit on positions, the layouts of memory."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from torch import nn

from rmt.errors import ConfigError


class Layout(NamedTuple):
    """Where memory stands in a segment; `[CLS] mem [SEP] text [SEP]` is after=1, separator=1."""

    after: int  # special tokens before the read block
    separator: int = 0  # special tokens between the read block and the text
    write: bool = False  # memory tokens have a write block; without one, the read block is written to as well
    blocks: bool = False  # each memory block sees itself whole although tokens are causal

    def beside(self, read: int) -> Layout:
        """The layout where the read block has so many rows: where it has none, nothing sets it apart."""
        return self if read else self._replace(after=0, separator=0)


class Family(NamedTuple):
    """How models of one type are built, as far as memory has to know; see `encoder`, `decoder`, `seq2seq`."""

    kind: str  # encoder, decoder, seq2seq
    prefix: int  # special tokens that the tokenizer puts before a text
    suffix: int  # and behind it
    layouts: dict[str, Layout]  # the first is the default
    layers: str = ""  # where the part that encodes segments has its layers; empty: where there are as many
    reserved: int = 0  # rows of the position table that no token uses
    limited: bool = True  # there is no position beyond max_position_embeddings
    heads: tuple[str, ...] = ()
    inside: str = ""  # the part of the base model that heads call, where it is not the base model itself
    wide_mask: bool = True  # takes a mask of who sees whom; else only one of which tokens exist


POOLED = ("ForSequenceClassification", "ForMultipleChoice")  # heads that look at one place of a text
CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
ENCODER_HEADS = ("Model", "ForMaskedLM", "ForMultipleChoice", *CLASSIFIERS)
DECODER_HEADS = ("Model", "LMHeadModel", "ForCausalLM", *CLASSIFIERS)
SEQ2SEQ_HEADS = ("Model", "MTModel", "ForConditionalGeneration", "ForSequenceClassification")

AFTER_CLS = {"paper": Layout(after=1, separator=1), "prefix": Layout(after=0)}
AROUND = {"paper": Layout(after=0, write=True, blocks=True), "causal": Layout(after=0, write=True)}


def encoder(*, reserved: int = 0, layers: str = "", prefix: int = 1, suffix: int = 1) -> Family:
    """[CLS] text [SEP], everything sees everything."""
    layouts = AFTER_CLS if prefix else {"prefix": AFTER_CLS["prefix"]}
    return Family("encoder", prefix, suffix, layouts, layers, reserved, heads=ENCODER_HEADS)


def decoder(*, blocks: bool = True, layers: str = "", inside: str = "") -> Family:
    """Text alone, tokens see what is before them; without `blocks`, so does a block of memory."""
    layouts = AROUND if blocks else {"causal": AROUND["causal"]}
    return Family("decoder", 0, 0, layouts, layers, heads=DECODER_HEADS, inside=inside)


def seq2seq(*, prefix: int = 0, suffix: int = 1, limited: bool = True, layers: str = "") -> Family:
    """The encoder takes the text segment by segment; the decoder sees the last one, and its memory."""
    layouts = {"paper": Layout(after=prefix), "prefix": Layout(after=0)}
    return Family("seq2seq", prefix, suffix, layouts, layers, limited=limited, heads=SEQ2SEQ_HEADS)


def of_types(family: Family, names: str) -> dict[str, Family]:
    """The same for each of the model types."""
    return dict.fromkeys(names.split(), family)


FAMILIES: dict[str, Family] = {
    **of_types(
        encoder(),
        "bert convbert distilbert electra ernie gte jina_embeddings_v3 megatron-bert mobilebert "
        "modernbert nomic_bert rembert roformer squeezebert",
    ),
    **of_types(encoder(layers="encoder.albert_layer_groups"), "albert"),
    **of_types(
        encoder(reserved=2),
        "roberta camembert data2vec-text mpnet roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod",
    ),
    **of_types(encoder()._replace(limited=False, wide_mask=False), "deberta deberta-v2"),
    **of_types(
        decoder(),
        "afmoe apertus arcee aria_text axk1 biogpt bitnet codegen cohere cohere2 cohere2_moe cwm "
        "deepseek_v2 deepseek_v3 diffllama doge dots1 ernie4_5 ernie4_5_moe exaone4 exaone_moe falcon "
        "flex_olmo flint gemma gemma2 gemma3_text glm glm4 glm4_moe glm4_moe_lite gpt2 gpt_bigcode "
        "gpt_neox gpt_neox_japanese gpt_oss gptj granite granite_swa granitemoe granitemoe_swa "
        "granitemoeshared helium hunyuan_v1_dense hunyuan_v1_moe hy_v3 hyperclovax jais2 jetmoe kolibri1 "
        "llama mellum minicpm3 minimax_m2 ministral ministral3 mistral mixtral nanochat nemotron olmo "
        "olmo2 olmo3 olmoe persimmon phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_moe seed_oss smollm3 "
        "solar_open stablelm starcoder2 vaultgemma youtu",
    ),
    **of_types(decoder(blocks=False), "gpt_neo"),
    **of_types(decoder(inside="decoder"), "opt"),
    **of_types(seq2seq(limited=False), "t5 mt5 umt5"),
    **of_types(seq2seq(prefix=1), "bart"),
    **of_types(seq2seq(), "pegasus marian m2m_100 bigbird_pegasus"),
    **of_types(seq2seq(suffix=2), "mbart plbart"),
    **of_types(seq2seq(suffix=0), "blenderbot-small"),
}
ATTENTION_TYPES = {"full_attention", "sliding_attention"}
USUAL_LENGTH = 512  # of a segment with everything in it, where a family knows no limit


def family_named(kind: str) -> Family:
    """The family of a model type with or without memory, where a model of it is made."""
    plain = kind.removeprefix("rmt_")
    if plain not in FAMILIES:
        raise ConfigError(
            f"model type {plain!r} has no family; say rmt.hf.register({plain!r}, …) where its class is"
        )
    return FAMILIES[plain]


def family_of(model: Any) -> Family:
    """The family of a pretrained model, or the error that says why it can have no memory."""
    config, name = model.config, type(model).__name__
    kind = config.model_type.removeprefix("rmt_")
    if kind not in FAMILIES:
        raise ConfigError(f"{name} cannot have memory: {reason_unknown(type(model), config)}")
    family = FAMILIES[kind]
    head = head_of(type(model))
    if head not in family.heads:
        raise ConfigError(
            f"{name} cannot have memory: {head} is not one of {', '.join(family.heads)}; "
            "load the weights with another class"
        )
    if family.kind == "encoder" and getattr(config, "is_decoder", False):
        raise ConfigError(f"{name} with is_decoder=True cannot have memory: set is_decoder=False")
    if getattr(config, "alibi", False):
        raise ConfigError(
            f"{name} with alibi=True cannot have memory: its scores count tokens from the mask; load a model "
            "with rotary positions"
        )
    if getattr(config, "add_cross_attention", False):
        raise ConfigError(
            f"{name} with add_cross_attention=True cannot have memory: segments in a cache would go on "
            "without what it attends to; load the weights with add_cross_attention=False"
        )
    others = other_layers(config)
    if family.kind == "decoder" and others:
        raise ConfigError(
            f"{name} cannot have memory: its layers of {others[0]} are no attention to all tokens or to "
            "those near by"
        )
    return family


def reason_unknown(model_class: Any, config: Any) -> str:
    """Why models of a type that is not in the table have no memory."""
    kind = config.model_type
    parts = [name for name in getattr(config, "sub_configs", {}) if getattr(config, name, None) is not None]
    if parts:
        return f"model type {kind!r} is made of parts ({', '.join(parts)}); load the part that takes text"
    if model_class.main_input_name != "input_ids":
        return f"model type {kind!r} takes {model_class.main_input_name} and no text"
    others = other_layers(config)
    if others:
        return f"its layers of {others[0]} are no attention to all tokens or to those near by"
    return (
        f"model type {kind!r} is not one that memory was tested with; if it is built like one that is, say "
        "so with rmt.hf.register, see docs/families.md"
    )


def other_layers(config: Any) -> list[str]:
    """Types of layers that are not attention to all tokens or to those near by."""
    return sorted({*(getattr(config, "layer_types", None) or ())} - ATTENTION_TYPES)


def head_of(model_class: type) -> str:
    """What a class is for, such as ForMaskedLM or the bare Model, by its name or that of one it extends."""
    names = [base.__name__ for base in model_class.__mro__ if not base.__name__.endswith("PreTrainedModel")]
    head = r"(For[A-Z]\w*|LMHeadModel|MTModel|DoubleHeadsModel|EncoderModel|Model)$"
    return next((ending[1] for name in names if (ending := re.search(head, name))), model_class.__name__)


def segment_backbone(model: Any, family: Family) -> Any:
    """The part of a model that encodes segments, whose own class knows nothing of them."""
    if family.kind == "seq2seq":
        return model.get_encoder()
    return getattr(model.base_model, family.inside) if family.inside else model.base_model


def layer_width(config: Any, embedded: int) -> int:
    """How wide a backbone's layers are: embeddings of width `embedded` can be narrower."""
    return int(getattr(config, "hidden_size", None) or embedded)


def output_width(config: Any, embedded: int) -> int:
    """How wide its outputs are: as its layers, but OPT brings them back to the embeddings' width."""
    return embedded if getattr(config, "word_embed_proj_dim", None) else layer_width(config, embedded)


def layers_path(backbone: Any, family: Family) -> str:
    """Where a backbone has its layers: the first list of as many modules as it has layers."""
    if family.layers:
        return family.layers
    config = backbone.config
    names = ("encoder_layers", "num_layers", "num_hidden_layers") if family.kind == "seq2seq" else ()
    counts = [getattr(config, name, None) for name in (*names, "num_hidden_layers")]
    count = next((number for number in counts if number), None)
    for path, module in backbone.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return path
    raise ConfigError(
        f"{type(backbone).__name__} has no list of {count} layers; name it in rmt.hf.register(…, layers=…)"
    )


def depends_on_last_only(model_class: type, config: Any, family: Family) -> bool:
    """Whether an answer depends on the last segment alone, and on what memory brings there."""
    averages = getattr(config, "classifier_pooling", "cls") == "mean"
    return family.kind == "seq2seq" or (head_of(model_class) in POOLED and not averages)


def limit_of(config: Any, family: Family) -> int | None:
    """The most positions a segment may have, memory and special tokens included; None = no limit."""
    if not family.limited and not getattr(config, "position_biased_input", False):
        return None
    positions = getattr(config, "max_position_embeddings", None)
    return None if positions is None else int(positions) - family.reserved


def longest_segment(config: Any, family: Family, memory: int) -> int:
    """The most tokens of text that fit beside special tokens and `memory`, the positions that it takes."""
    limit = limit_of(config, family)
    if limit is None:
        limit = int(getattr(config, "max_position_embeddings", None) or USUAL_LENGTH)
    return limit - family.prefix - family.suffix - memory
