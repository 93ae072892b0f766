"""A backbone called on texts of any length: segment after segment, each token's state in its place."""

# B batch · T places of the given rows · D width

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rmt.core.bptt import truncated
from rmt.core.inputs import require_ids, require_state
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.cell import Cell, CellOutput
from rmt.hf.families import depends_on_last_only
from rmt.hf.recorder import recorder_of
from rmt.hf.segments import SegmentPlan, gather, plan

PER_TOKEN = ("input_ids", "inputs_embeds", "token_type_ids")
COUNTED_ANEW = ("position_ids", "past_key_values", "return_dict", "use_cache")  # each segment has its own


class SegmentwiseCall:
    """One call of a backbone, in place of its `forward`; afterwards `state` is the state it ended in."""

    def __init__(self, model: Any, state: State | None):
        self.model, self.state = model, state

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's output for whole texts (B, T)."""
        names = argument_names(type(self.model.segment_backbone()).forward)
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        cutting, outputs = self.encode(
            {name: value for name, value in arguments.items() if value is not None}
        )
        last = outputs[-1]
        result = last.backbone
        hidden = torch.cat([output.hidden for output in outputs], dim=1)
        result.last_hidden_state = assemble(hidden, cutting.places)
        if result.get("hidden_states") is not None:
            result.hidden_states = self.layers(cutting, outputs)
        pooler = getattr(self.model.segment_backbone(), "pooler", None)
        if pooler is not None:
            result.pooler_output = pooler(last.hidden)
        if result.get("attentions") is not None and len(outputs) > 1:
            raise ConfigError(
                "output_attentions=True over several segments has no one map; give one segment at a time, "
                "with state= and return_state=True"
            )
        return result

    def encode(self, arguments: dict[str, Any]) -> tuple[SegmentPlan, list[CellOutput]]:
        """Cut the texts among the arguments of the backbone, and encode their segments."""
        model = self.model
        refuse(model, arguments)
        tokens = {name: value for name, value in arguments.items() if name in PER_TOKEN}
        first = next(iter(tokens.values()))
        mask = arguments.get("attention_mask")
        cutting = plan(
            tokens,
            None if mask is None else mask.bool(),
            model.settings,
            model.layout,
            model.config.pad_token_id or 0,
        )
        handled = (*PER_TOKEN, *COUNTED_ANEW, "attention_mask")
        options = {name: value for name, value in arguments.items() if name not in handled}
        if model.family.kind == "decoder":
            options["use_cache"] = False
        options["return_dict"] = True
        cell = Cell(model, options, recorder_of(model, options, first.device))
        initial = model.initial_state(len(first))
        state = initial if self.state is None else self.state
        require_state(state)
        require_same_form(state, initial)
        last_only = depends_on_last_only(type(model).__name__, model.config, model.family)
        outputs = list(
            truncated(
                cell,
                cutting.segments,
                state,
                model.settings.bptt,
                counted="last" if last_only else "all",
                checkpoint=model.settings.checkpoint,
            )
        )
        self.state = outputs[-1].state
        return cutting, outputs

    def layers(self, cutting: SegmentPlan, outputs: list[CellOutput]) -> tuple[Tensor, ...]:
        """The hidden states of all layers, each token's in its place."""
        cell = Cell(self.model)
        by_segment = [
            [cell.unpack(layer, output.packed)[1] for layer in output.backbone.hidden_states]
            for output in outputs
        ]
        return tuple(
            assemble(torch.cat(layer, dim=1), cutting.places) for layer in zip(*by_segment, strict=True)
        )


@cache
def argument_names(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a method's arguments, in their order."""
    return tuple(inspect.signature(forward).parameters)[1:]


def assemble(hidden: Tensor, places: Tensor) -> Tensor:
    """States of all segments side by side -> (B, T, D); zero where a token was nowhere."""
    return gather(hidden, places.clamp(min=0)).masked_fill((places < 0)[..., None], 0)


def refuse(model: Any, arguments: dict[str, Any]) -> None:
    """Raise for what cannot be cut into segments."""
    mask, ids = arguments.get("attention_mask"), arguments.get("input_ids")
    if ids is not None:
        require_ids(ids, "input_ids")
    if mask is not None and (not isinstance(mask, Tensor) or mask.dim() != 2):
        raise ConfigError("attention_mask must be (batch, tokens): each segment makes its own wider mask")
    if mask is not None and ids is not None and mask.shape != ids.shape:
        raise ConfigError(
            f"attention_mask of shape {tuple(mask.shape)} does not fit input_ids of {tuple(ids.shape)}; "
            "give what one call of the tokenizer gave"
        )
    if arguments.get("position_ids") is not None:
        raise ConfigError("position_ids are counted anew in each segment; leave them out")
    if arguments.get("output_attentions") and model.config._attn_implementation not in ("eager", None):
        raise ConfigError(
            f"output_attentions=True gives nothing with attn_implementation="
            f"{model.config._attn_implementation!r}; call model.set_attn_implementation('eager') first"
        )


def require_same_form(state: State, initial: State) -> None:
    """Refuse a state of another batch, another size of memory or another kind."""
    shapes, expected = (
        {name: tuple(tensor.shape) for name, tensor in form.named().items()} for form in (state, initial)
    )
    for name in {**expected, **shapes}:
        if shapes.get(name) != expected.get(name):
            raise ConfigError(
                f"state with {name} of shape {shapes.get(name, 'none')} does not fit this batch and memory: "
                f"{expected.get(name, 'none')}; give the state of these rows, or model.initial_state(batch)"
            )
