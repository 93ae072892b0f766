"""Wrapped encoder-decoders: the encoder takes the text segment by segment, the decoder is the class's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.generation import checked_generation, checked_without_prompt, generation_arguments
from rmt.hf.inputs import checked_inputs
from rmt.hf.model import PretrainedClass, WithMemory
from rmt.hf.segmentwise import SegmentwiseCall


class Seq2SeqMemory(WithMemory):
    """Encoder-decoders: the decoder sees the last segment and its memory."""

    def output_and_state(
        self, forward: Callable[..., Any], arguments: dict[str, Any], state: State | None
    ) -> tuple[Any, State | None]:
        if arguments.get("encoder_outputs") is None:
            arguments, state = self.with_encoded_text(arguments, state)
        else:
            refuse_beside_encoded(state)
        return forward(self, **arguments, return_dict=True), state

    def with_encoded_text(
        self, arguments: dict[str, Any], state: State | None
    ) -> tuple[dict[str, Any], State | None]:
        """The arguments of `forward` with the text encoded: the last segment's states, mask and tokens."""
        names = ("input_ids", "inputs_embeds", "attention_mask", "output_attentions", "output_hidden_states")
        call = SegmentwiseCall(self, state)
        cutting, outputs = call.encode(
            {name: arguments[name] for name in names if arguments.get(name) is not None}
        )
        last = cutting.segments[-1].inputs
        encoded = {name: value for name, value in arguments.items() if name not in names[:3]}
        if "input_ids" in last:
            encoded["input_ids"] = last["input_ids"]
        encoded["encoder_outputs"] = outputs[-1].backbone
        encoded["attention_mask"] = outputs[-1].packed.mask
        return encoded, call.state


class Seq2SeqGeneration(PretrainedClass):
    """What heads of encoder-decoders that generate have besides."""

    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """As the class's own, after all segments of the text were encoded."""
        model: Any = self
        arguments = generation_arguments(inputs, args, kwargs)
        config = arguments.get("generation_config") or self.generation_config
        checked_generation(arguments, config)
        checked_without_prompt(arguments, config)
        state = arguments.pop("state", None)
        if arguments.get("encoder_outputs") is not None:
            refuse_beside_encoded(state)
            return super().generate(**arguments)
        if inputs is not None:
            arguments["input_ids"] = arguments.pop("inputs")
        with torch.no_grad():
            encoded, _ = model.with_encoded_text(checked_inputs(arguments, model.text_form(arguments)), state)
        if "input_ids" in encoded:  # penalties look at the whole text
            encoded["input_ids"] = arguments["input_ids"]
        return super().generate(**encoded)


def refuse_beside_encoded(state: State | None) -> None:
    """Raise for a state that a text would go on from which was encoded before."""
    if state is not None:
        raise ConfigError(
            "state= has no effect beside encoder_outputs=, which are there already; leave it out"
        )
