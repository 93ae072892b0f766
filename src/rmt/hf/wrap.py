"""`add_memory`: a pretrained model as its own subclass with memory, and Auto classes that know it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig, GenerationMixin, PreTrainedModel, modeling_utils

from rmt.config import to_dict
from rmt.core.bptt import Depth
from rmt.errors import ConfigError, shown
from rmt.hf.decoder import DecoderGeneration, DecoderMemory
from rmt.hf.families import (
    FAMILIES,
    Family,
    depends_on_last_only,
    family_named,
    family_of,
    head_of,
    longest_segment,
)
from rmt.hf.inputs import named_arguments
from rmt.hf.layer_cache import require_cachable
from rmt.hf.memory_module import memory_module
from rmt.hf.model import EncoderMemory, WithMemory, signature_of
from rmt.hf.models import ClassWithMemory
from rmt.hf.seq2seq import Seq2SeqGeneration, Seq2SeqMemory
from rmt.hf.settings import (
    Alignment,
    MemorySettings,
    Overlong,
    Scale,
    layout_of,
    require_effects,
    require_fitting,
    usual_sink,
)

MIXINS = {"encoder": EncoderMemory, "decoder": DecoderMemory, "seq2seq": Seq2SeqMemory}
GENERATION = {"decoder": DecoderGeneration, "seq2seq": Seq2SeqGeneration}
# those of the paper's code
ALIGNMENTS: dict[str, Alignment] = {"encoder": "right", "decoder": "left", "seq2seq": "right"}
# in decoders, memory that starts harmless; encoders as in the paper
KINDS = {"encoder": "tokens", "decoder": "associative", "seq2seq": "tokens"}
AUTO = (
    "AutoModel",
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSequenceClassification",
    "AutoModelForTokenClassification",
    "AutoModelForQuestionAnswering",
    "AutoModelForMultipleChoice",
)


def add_memory(
    model: Any,
    memory: int = 10,
    segment_length: int | None = None,
    max_segments: int | None = None,
    bptt: Depth = "full",
    layout: str | None = None,
    *,
    kind: str | None = None,
    cache: int = 0,
    sink: int | None = None,
    alignment: Alignment | None = None,
    overlong: Overlong = "error",
    checkpoint: bool = False,
    scale: Scale = "free",
    special_tokens: Sequence[int] | None = None,
) -> Any:
    """The model with recurrent memory: it takes texts of any length, segment after segment.

    Returns a model of class RMT<Class> that shares the weights of `model`, which stays as it is.
    `segment_length` counts tokens of text only; None is the most that fits beside memory and special tokens.
    `kind` of memory: None is `associative` in decoders, which changes no answer before it is trained, and
    memory tokens, those of the paper, elsewhere. A `cache` shows every layer of a decoder so many earlier
    tokens besides, without gradient, and the first `sink` of a text; None is four beside a cache.
    `special_tokens` says how many tokens at the start and at the end of each text are special, and repeated
    in each segment; None is what the family's tokenizer adds.
    """
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(f"model={type(model).__name__} is not a pretrained model of transformers")
    if isinstance(model, WithMemory):
        raise ConfigError(f"{type(model).__name__} has memory already; wrap the model it was made from")
    family = family_of(model)
    if special_tokens is not None:
        family = with_special_tokens(family, special_tokens)
    settings = MemorySettings(
        memory=memory,
        kind=default_kind(family, memory) if kind is None else kind,
        cache=cache,
        sink=usual_sink(cache, sink),
        segment_length=1 if segment_length is None else segment_length,
        max_segments=max_segments,
        overlong=overlong,
        alignment=alignment or ALIGNMENTS[family.kind],
        bptt=bptt,
        checkpoint=checkpoint,
        layout=next(iter(family.layouts)) if layout is None else layout,
        scale=scale,
        embedding_rms=embedding_rms(model),
        prefix=family.prefix,
        suffix=family.suffix,
    )
    require_effects(settings)
    positions = required_positions(model, family, settings)
    if segment_length is None:
        longest = longest_segment(model.config, family, positions)
        settings = replace(settings, segment_length=max(1, longest))
    require_fitting(model.config, family, settings, positions)
    return wrapped(model, settings)


def with_special_tokens(family: Family, special_tokens: Sequence[int]) -> Family:
    """A family whose texts have so many special tokens at their start and at their end."""
    numbers = list(special_tokens) if isinstance(special_tokens, (tuple, list)) else []
    if len(numbers) != 2 or not all(type(number) is int and number >= 0 for number in numbers):
        raise ConfigError(
            f"special_tokens={shown(special_tokens)} is no pair of numbers; name those at the start and at "
            "the end of a text, such as (1, 1)"
        )
    return family._replace(prefix=numbers[0], suffix=numbers[1])


def default_kind(family: Family, memory: int) -> str:
    """The kind of memory where none was named: that of the family, and tokens where there are none."""
    return KINDS[family.kind] if memory else "tokens"


def required_positions(model: Any, family: Family, settings: MemorySettings) -> int:
    """The positions of a segment that memory takes; settings that this model cannot have are refused."""
    with torch.device("meta"):  # sizes without weights
        memory = memory_module(model, family, settings)
    layout = layout_of(family, settings.layout).beside(memory.read_size)
    if layout.after > settings.prefix:
        raise ConfigError(
            f"layout={settings.layout!r} puts memory behind the first special token, and special_tokens="
            f"{(settings.prefix, settings.suffix)} says there is none; use layout='prefix'"
        )
    if layout.separator > settings.suffix:
        raise ConfigError(
            f"layout={settings.layout!r} needs a special token at the end to separate memory from text; "
            "use layout='prefix'"
        )
    if memory.in_layers and memory.layers != model.config.num_hidden_layers:
        raise ConfigError(
            f"kind={settings.kind!r} lives in the layers, which {type(model).__name__} shares; use "
            "kind='tokens'"
        )
    if settings.overlong == "truncate" and not depends_on_last_only(type(model), model.config, family):
        raise ConfigError(
            f"overlong='truncate' would leave tokens of {type(model).__name__} without an answer; cut the "
            "texts yourself, or give them in pieces with state="
        )
    require_cachable(model, family, settings)
    return layout.separator + memory.read_size + memory.write_size + settings.cache_config.rows


def embedding_rms(model: Any) -> float:
    """The root mean square of the token embeddings; 1 where there are shapes only."""
    weight = model.get_input_embeddings().weight
    if weight.is_meta:
        return 1.0
    return float(weight.detach().float().pow(2).mean().sqrt()) or 1.0


def wrapped(model: Any, settings: MemorySettings) -> Any:
    """A copy of the modules around the same weights, of the class with memory."""
    register_models(model.config.model_type)
    config = copy.deepcopy(model.config)  # keeps the attention implementation, which to_dict() would lose
    config.__class__ = config_class(class_of(model.config))
    config.rmt = to_dict(settings)
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    result = copy.deepcopy(model, {**shared, id(model.config): config})
    result.__class__ = model_class(class_of(model))
    config.name_or_path = result.name_or_path = ""  # else adapters would say that they belong to `model`
    recorded = result._can_record_outputs
    modeling_utils._CAN_RECORD_REGISTRY[str(type(result))] = recorded  # as its __init__ would
    config.architectures = [type(result).__name__]
    result.add_memory_module()
    return result.train(model.training)


def class_of(thing: Any) -> Any:
    """The class of a model or of its configuration."""
    return type(thing)


@functools.cache
def config_class(base: Any) -> Any:
    """RMT<Config>, whose model type begins with rmt_, so that nobody loads the plain model by mistake."""
    ignored = [*{*getattr(base, "keys_to_ignore_at_inference", []), "past_key_values"}, "state"]

    def from_dict(cls: type, *args: Any, **kwargs: Any) -> Any:
        register_models(base.model_type)
        return super(remembering, cls).from_dict(*args, **kwargs)

    fields: dict[str, Any] = {
        "model_type": f"rmt_{base.model_type}",
        "keys_to_ignore_at_inference": ignored,
        "rmt": None,
        "from_dict": classmethod(from_dict),
        "__module__": "rmt.hf.models",
        "__doc__": f"{base.__name__} with the settings of memory in `rmt`.",
    }
    remembering: Any = ClassWithMemory(f"RMT{base.__name__}", (base,), fields)
    return remembering


@functools.cache
def model_class(base: Any) -> Any:
    """RMT<Class>: the class itself with memory."""
    forward = base.forward

    def forward_with_memory(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.call_with_memory(forward, named_arguments(forward, args, kwargs))

    method: Any = forward_with_memory
    method.__name__, method.__doc__, method.__signature__ = "forward", forward.__doc__, signature_of(forward)
    family = family_named(base.config_class.model_type)
    fields = {
        "forward": method,
        "config_class": config_class(base.config_class),
        "plain": base,
        "_can_set_attn_implementation_cached_value": base._can_set_attn_implementation(),
        "__module__": "rmt.hf.models",
        "__doc__": f"{base.__name__} with recurrent memory.",
    }
    mixins: list[Any] = [MIXINS[family.kind]]
    if issubclass(base, GenerationMixin) and family.kind in GENERATION:
        mixins.insert(0, GENERATION[family.kind])
    return ClassWithMemory(f"RMT{base.__name__}", (*mixins, base), fields)


def register(kind: str, family: Family) -> None:
    """Let models of a type of transformers, or of one's own, have memory: `family` says how they are built.

    The type is known to `AutoConfig` already. Say `rmt.hf.encoder()`, `decoder()` or `seq2seq()`.
    """
    if kind not in CONFIG_MAPPING:
        raise ConfigError(f"model type {kind!r} is not known to AutoConfig; register its configuration there")
    if not isinstance(family, Family):
        raise ConfigError(
            f"family={family!r} says nothing of a model; give rmt.hf.decoder(), encoder() or seq2seq()"
        )
    FAMILIES[kind] = family
    register_config(kind)


def register_families() -> None:
    """Teach `AutoConfig` all families that this release of transformers has."""
    for kind in FAMILIES:
        if kind in CONFIG_MAPPING:
            register_config(kind)


def register_config(kind: str) -> None:
    """Teach `AutoConfig` a family with memory; its models follow when it is first met."""
    base: Any = CONFIG_MAPPING[kind]
    config = config_class(base)
    AutoConfig.register(config.model_type, config, exist_ok=True)


def register_models(kind: str) -> None:
    """Teach the other Auto classes those heads of one family that they know without memory by now."""
    base: Any = CONFIG_MAPPING[kind]
    config = config_class(base)
    for name in AUTO:
        auto = getattr(transformers, name)
        known = auto._model_mapping.get(base, None)
        known = known[0] if isinstance(known, tuple) else known
        if known is None or head_of(known) not in FAMILIES[kind].heads:
            continue
        with_memory = model_class(known)
        auto.register(config, with_memory, exist_ok=True)
        auto._model_mapping._model_mapping[config.model_type] = with_memory.__name__  # pipelines look here
