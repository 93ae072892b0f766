"""Memory for pretrained classes: the head is the class's own, only its backbone reads segment by segment."""

# B batch · T places of the given rows · M memory · D width

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.families import FAMILIES, POOLED, head_of
from rmt.hf.head import Head, SegmentReading
from rmt.hf.reading import Reading, standing_in
from rmt.hf.settings import layout_of, settings_of
from rmt.hf.stepping import OpenSegment, SegmentCache


class WithMemory:
    """What every class with memory has, whatever its family."""

    memory: nn.Embedding
    config: Any

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        super().__init__(config, *args, **kwargs)
        backbone = self.base_model
        if backbone is not self and isinstance(backbone, WithMemory):  # AutoModel made it, from this config
            del backbone.memory
            backbone.__class__ = type(backbone).plain
        self.add_memory_tokens()

    def add_memory_tokens(self) -> None:
        """Draw the initial memory at the size of token embeddings."""
        kind = self.config.model_type.removeprefix("rmt_")
        self.family = FAMILIES[kind]
        self.settings = settings_of(self.config)
        self.layout = layout_of(self.family, self.settings.layout)
        weight = self.reader().get_input_embeddings().weight
        self.memory = nn.Embedding(
            self.settings.memory, weight.shape[1], dtype=weight.dtype, device=weight.device
        )
        self._init_weights(self.memory)

    def _init_weights(self, module: nn.Module) -> None:
        if module is getattr(self, "memory", None):
            from transformers.initialization import normal_

            normal_(module.weight, std=self.settings.embedding_rms)
            return
        super()._init_weights(module)

    def initial_state(self, batch: int) -> State:
        """The state before the first segment of `batch` texts."""
        tokens = self.memory(torch.arange(self.settings.memory, device=self.memory_device))
        return State(
            tokens.expand(batch, -1, -1), (), torch.zeros(batch, dtype=torch.long, device=tokens.device)
        )

    @property
    def memory_device(self) -> torch.device:
        return next(self.memory.parameters()).device

    def reader(self) -> Any:
        """The module that reads the text, in whose place the reading of segments stands."""
        return getattr(self.base_model, self.family.inside) if self.family.inside else self.base_model

    def forward_with_memory(self, forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        """The class's own `forward`, on texts of any length."""
        state, return_state = given.pop("state", None), given.pop("return_state", None)
        as_tuple = given.pop("return_dict", None) is False
        self.warn_if_frozen()
        output, state = self.answer(forward, given, state)
        if return_state:
            output["state"] = state
        return output.to_tuple() if as_tuple else output

    def answer(
        self, forward: Callable[..., Any], given: dict[str, Any], state: State | None
    ) -> tuple[Any, State | None]:
        """The output and the state after the text."""
        backbone = self.reader()
        if backbone is self:
            reading = Reading(self, partial(forward, self), state)
            return reading(**given), reading.state
        reading = Reading(self, backbone.forward, state)
        if head_of(type(self).__name__) in POOLED:
            given = to_the_left(given)
        with standing_in(backbone, reading):
            output = forward(self, **given, return_dict=True)
        return output, reading.state

    def warn_if_frozen(self) -> None:
        """Say that memory does not learn although other weights do: adapters freeze what they do not know."""
        if not self.training or not self.settings.memory or not torch.is_grad_enabled():
            return
        if any(parameter.requires_grad for parameter in self.memory.parameters()):
            return
        if any(parameter.requires_grad for parameter in self.parameters()):
            warnings.warn(
                "memory is frozen while other weights are trained, and an adapter will not save it; "
                "name it in the adapter's configuration: modules_to_save=['memory']",
                stacklevel=4,
            )


class EncoderMemory(WithMemory):
    """Encoders: one block of memory, read and written in place."""


class DecoderMemory(WithMemory):
    """Decoders: memory on both sides of the tokens, generation across segments."""

    def answer(
        self, forward: Callable[..., Any], given: dict[str, Any], state: State | None
    ) -> tuple[Any, State | None]:
        cache = given.get("past_key_values")
        if cache is None:
            return super().answer(forward, given, state)
        if not isinstance(cache, SegmentCache):
            raise ConfigError(
                f"past_key_values={type(cache).__name__} knows no segments; generate() makes its own, and "
                "rmt.hf.SegmentCache(model, state) is one"
            )
        if self.reader() is self:
            return cache.stand_in(**given), None
        with standing_in(self.reader(), cache.stand_in):
            return forward(self, **given, return_dict=True), None

    def open(self, state: State) -> OpenSegment:
        """A segment to be read piece by piece: `step(tokens)` …, then `close()` for the next state."""
        return OpenSegment(self, state)

    def read(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> SegmentReading:
        """Read one segment (B, L) and predict nothing; rows have the first `lengths` (B,) of its tokens."""
        segment = self.open(state)
        return SegmentReading(segment.read(tokens, lengths), segment.close())

    @property
    def embedding(self) -> Head:
        """What turns hidden states into logits and losses."""
        return Head(self)

    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """As the class's own; memory is carried over each border of a segment, in constant space."""
        config = kwargs.get("generation_config", self.generation_config)
        if kwargs.get("use_cache", config.use_cache) is not False and "past_key_values" not in kwargs:
            kwargs["past_key_values"] = SegmentCache(self, kwargs.pop("state", None))
        return super().generate(inputs, *args, **kwargs)

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        prepared = super().prepare_inputs_for_generation(*args, **kwargs)
        prepared.pop("position_ids", None)  # each segment counts its own
        return prepared


class Seq2SeqMemory(WithMemory):
    """Encoder-decoders: the decoder sees the last segment and its memory."""

    def reader(self) -> Any:
        return self.get_encoder()

    def answer(
        self, forward: Callable[..., Any], given: dict[str, Any], state: State | None
    ) -> tuple[Any, State | None]:
        if given.get("encoder_outputs") is None:
            given, state = self.encode(given, state)
        return forward(self, **given, return_dict=True), state

    def encode(self, given: dict[str, Any], state: State | None) -> tuple[dict[str, Any], State | None]:
        """The arguments of `forward` with the text read: the last segment's states, mask and tokens."""
        names = ("input_ids", "inputs_embeds", "attention_mask", "output_attentions", "output_hidden_states")
        reading = Reading(self, self.reader().forward, state)
        plan, outputs = reading.read({name: given[name] for name in names if given.get(name) is not None})
        last = plan.segments[-1]
        tokens = {"input_ids": last.inputs["input_ids"]} if "input_ids" in last.inputs else {}
        rest = {name: value for name, value in given.items() if name not in names[:3]}
        mask = outputs[-1].packed.exists.long()
        return {
            **rest,
            **tokens,
            "encoder_outputs": outputs[-1].backbone,
            "attention_mask": mask,
        }, reading.state

    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """As the class's own, after reading all segments of the text."""
        if kwargs.get("encoder_outputs") is not None:
            return super().generate(inputs, *args, **kwargs)
        if inputs is not None:
            kwargs["input_ids"] = inputs
        kwargs.setdefault("attention_mask", None)
        state = kwargs.pop("state", None)
        with torch.no_grad():
            encoded, _ = self.encode(kwargs, state)
        encoded.pop("input_ids", None)
        return super().generate(*args, **encoded)


def to_the_left(given: dict[str, Any]) -> dict[str, Any]:
    """The inputs with padding on the right: heads that pool look at the first place, or at the last token."""
    mask = given.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.dim() not in (2, 3):
        return given
    order = (mask == 0).to(torch.uint8).argsort(dim=-1, stable=True)
    moved = {
        name: given[name].take_along_dim(order, dim=-1)
        for name in ("input_ids", "token_type_ids", "attention_mask")
        if given.get(name) is not None
    }
    if given.get("inputs_embeds") is not None:
        moved["inputs_embeds"] = given["inputs_embeds"].take_along_dim(order[..., None], dim=-2)
    return {**given, **moved}


def signature_of(forward: Callable[..., Any]) -> inspect.Signature:
    """The class's own signature with `state` and `return_state`: trainers read argument names from it."""
    own = inspect.signature(forward)
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter("state", keyword, default=None, annotation="State | None"),
        inspect.Parameter("return_state", keyword, default=False, annotation="bool"),
    ]
    named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    rest = [one for one in own.parameters.values() if one.kind is inspect.Parameter.VAR_KEYWORD]
    return own.replace(parameters=[*named, *more, *rest])
