"""A backbone that reads texts of any length: segment after segment, each token's state in its place."""

# B batch · T places of the given rows · D width

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from rmt.core.state import State
from rmt.core.unroll import unroll
from rmt.errors import ConfigError
from rmt.hf.cell import Cell, Output
from rmt.hf.families import reads_last_only
from rmt.hf.segments import Plan, gather, plan

PER_TOKEN = ("input_ids", "inputs_embeds", "token_type_ids")


class Reading:
    """One call of a backbone, standing in for its `forward`; afterwards `state` is the state it ended in."""

    def __init__(self, model: Any, backbone: Callable[..., Any], state: State | None):
        self.model, self.backbone, self.state = model, backbone, state
        self.names = list(inspect.signature(backbone).parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's output for whole texts (B, T)."""
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        reading, outputs = self.read({name: value for name, value in given.items() if value is not None})
        last = outputs[-1]
        result = last.backbone
        hidden = torch.cat([output.hidden for output in outputs], dim=1)
        result.last_hidden_state = assemble(hidden, reading.found)
        if result.get("hidden_states") is not None:
            result.hidden_states = self.layers(reading, outputs)
        if result.get("pooler_output") is not None:
            result.pooler_output = self.model.reader().pooler(last.hidden)
        if result.get("attentions") is not None and len(outputs) > 1:
            raise ConfigError(
                "output_attentions=True over several segments has no one map; give one segment at a time, "
                "with state= and return_state=True"
            )
        return result

    def read(self, given: dict[str, Any]) -> tuple[Plan, list[Output]]:
        """Cut what was given, and read it."""
        model = self.model
        refuse(model, given)
        tokens = {name: given.pop(name) for name in PER_TOKEN if name in given}
        first = next(iter(tokens.values()))
        mask = given.pop("attention_mask", None)
        exists = torch.ones(first.shape[:2], device=first.device) if mask is None else mask
        reading = plan(
            tokens,
            exists.to(first.device).bool(),
            model.settings,
            model.layout,
            model.config.pad_token_id or 0,
        )
        for name in ("position_ids", "past_key_values", "return_dict", "use_cache"):
            given.pop(name, None)
        if model.family.kind == "decoder":
            given["use_cache"] = False
        cell = Cell(self.backbone, model, {**given, "return_dict": True})
        state = model.initial_state(len(first)) if self.state is None else self.state
        require_rows(state, len(first), model)
        outputs = self.outputs(cell, reading.segments, state)
        self.state = outputs[-1].state
        return reading, outputs

    def outputs(self, cell: Any, segments: list[Any], state: State) -> list[Any]:
        """The output of each segment, differentiable through at most `bptt` previous ones.

        A segment's gradient comes from a window that starts from a cut state: with losses in every segment
        an exact depth costs depth + 1 passes per segment. Where only the last segment counts, there is one
        window, and what lies before it is read without a graph.
        """
        settings, differentiate = self.model.settings, torch.is_grad_enabled()
        depth, checkpoint = settings.bptt, settings.checkpoint and differentiate
        if depth == "full" or not differentiate:
            return list(unroll(cell, segments, state, checkpoint))
        if reads_last_only(type(self.model).__name__, self.model.config, self.model.family):
            border = max(0, len(segments) - 1 - depth)
            with torch.no_grad():
                before = list(unroll(cell, segments[:border], state))
            state = before[-1].state.detach() if before else state
            return [*before, *unroll(cell, segments[border:], state, checkpoint)]
        entering, outputs = [state], []
        for index in range(len(segments)):
            start = max(0, index - depth)
            *_, output = unroll(cell, segments[start : index + 1], entering[start], checkpoint)
            entering.append(output.state.detach())
            outputs.append(output)
        return outputs

    def layers(self, reading: Plan, outputs: list[Output]) -> tuple[Tensor, ...]:
        """The hidden states of all layers, each token's in its place."""
        cell = Cell(self.backbone, self.model)
        by_segment = [
            [cell.unpack(layer, output.packed, segment)[0] for layer in output.backbone.hidden_states]
            for output, segment in zip(outputs, reading.segments, strict=True)
        ]
        return tuple(
            assemble(torch.cat(layer, dim=1), reading.found) for layer in zip(*by_segment, strict=True)
        )


def assemble(hidden: Tensor, found: Tensor) -> Tensor:
    """States of all segments side by side -> (B, T, D); zero where a token was nowhere."""
    return gather(hidden, found.clamp(min=0)).masked_fill((found < 0)[..., None], 0)


def refuse(model: Any, given: dict[str, Any]) -> None:
    """Raise for what cannot be cut into segments."""
    mask = given.get("attention_mask")
    if mask is not None and (not isinstance(mask, Tensor) or mask.dim() != 2):
        raise ConfigError("attention_mask must be (batch, tokens): each segment makes its own wider mask")
    if given.get("position_ids") is not None:
        raise ConfigError("position_ids are counted anew in each segment; leave them out")
    if given.get("output_attentions") and model.config._attn_implementation not in ("eager", None):
        raise ConfigError(
            f"output_attentions=True gives nothing with attn_implementation="
            f"{model.config._attn_implementation!r}; call model.set_attn_implementation('eager') first"
        )


def require_rows(state: State, batch: int, model: Any) -> None:
    """Refuse a state of another batch or another size of memory."""
    wanted = (batch, model.settings.memory)
    if tuple(state.memory.shape[:2]) != wanted:
        raise ConfigError(
            f"state of {tuple(state.memory.shape[:2])} (rows, memory) does not fit a batch of {wanted}; "
            "give the state of these rows, or model.initial_state(batch)"
        )


@contextmanager
def standing_in(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Let `forward` answer for a module, for the length of one call."""
    before = module.__dict__.get("forward")
    module.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before  # type: ignore[method-assign]
