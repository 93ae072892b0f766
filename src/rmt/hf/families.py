"""What differs between pretrained families: special tokens, the limit on positions, the layouts of memory."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

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
    """A model type of transformers."""

    kind: str  # encoder, decoder, seq2seq
    prefix: int  # special tokens that the tokenizer puts before a text
    suffix: int  # and behind it
    layouts: dict[str, Layout]  # the first is the default
    layers: str  # where the part that encodes segments has its layers
    reserved: int = 0  # rows of the position table that no token uses
    limited: bool = True  # there is no position beyond max_position_embeddings
    heads: tuple[str, ...] = ()
    inside: str = ""  # the part of the base model that heads call, where it is not the base model itself
    wide_mask: bool = True  # takes a mask of who sees whom; else only one of which tokens exist


POOLED = ("ForSequenceClassification", "ForMultipleChoice")  # heads that look at one place of a text
CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
ENCODER_HEADS = ("Model", "ForMaskedLM", "ForMultipleChoice", *CLASSIFIERS)
DECODER_HEADS = ("Model", "LMHeadModel", "ForCausalLM", *CLASSIFIERS)
SEQ2SEQ_HEADS = ("Model", "ForConditionalGeneration", "ForSequenceClassification")

AFTER_CLS = {"paper": Layout(after=1, separator=1), "prefix": Layout(after=0)}
AROUND = {"paper": Layout(after=0, write=True, blocks=True), "causal": Layout(after=0, write=True)}


def encoder(layers: str = "encoder.layer", reserved: int = 0) -> Family:
    """[CLS] text [SEP], everything sees everything."""
    return Family("encoder", 1, 1, AFTER_CLS, layers, reserved, heads=ENCODER_HEADS)


def decoder(layers: str = "layers", inside: str = "") -> Family:
    """Text alone, tokens see what is before them."""
    return Family("decoder", 0, 0, AROUND, layers, heads=DECODER_HEADS, inside=inside)


def seq2seq(layers: str, prefix: int, limited: bool) -> Family:
    """The encoder takes the text segment by segment; the decoder sees the last one, and its memory."""
    layouts = {"paper": Layout(after=prefix), "prefix": Layout(after=0)}
    return Family("seq2seq", prefix, 1, layouts, layers, limited=limited, heads=SEQ2SEQ_HEADS)


FAMILIES = {
    "bert": encoder(),
    "roberta": encoder(reserved=2),
    "deberta-v2": encoder()._replace(limited=False, wide_mask=False),
    "modernbert": encoder("layers"),
    "mpnet": encoder(reserved=2),
    "gpt2": decoder("h"),
    "llama": decoder(),
    "qwen3": decoder(),
    "gpt_neox": decoder(),
    "opt": decoder(inside="decoder"),
    "t5": seq2seq("block", prefix=0, limited=False),
    "bart": seq2seq("layers", prefix=1, limited=True),
}
USUAL_LENGTH = 512  # of a segment with everything in it, where a family knows no limit


def family_of(model: Any) -> Family:
    """The family of a pretrained model, or the error that says why it can have no memory."""
    config, name = model.config, type(model).__name__
    kind = config.model_type.removeprefix("rmt_")
    if kind not in FAMILIES:
        raise ConfigError(
            f"model type {kind!r} ({name}) is not one that memory was tested with; choose from: "
            f"{', '.join(FAMILIES)}"
        )
    family = FAMILIES[kind]
    if head_of(name) not in family.heads:
        raise ConfigError(
            f"{name} cannot have memory: {head_of(name)} is not one of {', '.join(family.heads)}; "
            "load the weights with another class"
        )
    if family.kind == "encoder" and getattr(config, "is_decoder", False):
        raise ConfigError(f"{name} with is_decoder=True cannot have memory: set is_decoder=False")
    if family.kind == "decoder" and "sliding_attention" in (getattr(config, "layer_types", None) or []):
        raise ConfigError(
            f"{name} with sliding-window layers cannot have memory: tokens far behind the read block would "
            "not see it; load it with use_sliding_window=False"
        )
    return family


def head_of(name: str) -> str:
    """The part of a class's name that says what it is for, such as ForMaskedLM; the bare Model has none."""
    ending = re.search(r"(For[A-Z]\w*|LMHeadModel|DoubleHeadsModel|EncoderModel|Model)$", name)
    return ending[1] if ending else name


def segment_backbone(model: Any, family: Family) -> Any:
    """The part of a model that encodes segments, whose own class knows nothing of them."""
    if family.kind == "seq2seq":
        return model.get_encoder()
    return getattr(model.base_model, family.inside) if family.inside else model.base_model


def memory_width(config: Any, embedded: int) -> int:
    """How wide a backbone's outputs are, and so memory: embeddings of width `embedded` can be narrower."""
    if getattr(config, "word_embed_proj_dim", None):  # OPT brings its outputs back to the embeddings' width
        return embedded
    return int(getattr(config, "hidden_size", None) or embedded)


def depends_on_last_only(name: str, config: Any, family: Family) -> bool:
    """Whether an answer depends on the last segment alone, and on what memory brings there."""
    averages = getattr(config, "classifier_pooling", "cls") == "mean"
    return family.kind == "seq2seq" or (head_of(name) in POOLED and not averages)


def limit_of(config: Any, family: Family) -> int | None:
    """The most positions a segment may have, memory and special tokens included; None = no limit."""
    if not family.limited and not getattr(config, "position_biased_input", False):
        return None
    return int(config.max_position_embeddings) - family.reserved


def longest_segment(config: Any, family: Family, memory: int) -> int:
    """The most tokens of text that fit beside special tokens and `memory`, the positions that it takes."""
    limit = limit_of(config, family)
    if limit is None:
        limit = int(getattr(config, "max_position_embeddings", None) or USUAL_LENGTH)
    return limit - family.prefix - family.suffix - memory
