"""A backbone called on texts of any length: segment after segment, each token's state in its place."""

# B batch · T places of the given rows · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rmt.core.bptt import truncated
from rmt.core.inputs import require_state
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.cell import Cell, CellOutput
from rmt.hf.families import POOLED, depends_on_last_only, head_of
from rmt.hf.inputs import named_arguments, refuse_in_segments, require_same_form, require_tokens
from rmt.hf.recorder import recorder_of
from rmt.hf.segments import SegmentPlan, TextSegment, gather, padding_id, plan, spread
from rmt.hf.stepping import PendingRows, SegmentCache

PER_TOKEN = ("input_ids", "inputs_embeds", "token_type_ids")
COUNTED_ANEW = ("position_ids", "past_key_values", "return_dict", "use_cache")  # each segment has its own


class SegmentwiseCall:
    """One call of a backbone, in place of its `forward`; afterwards `state` is the state it ended in."""

    def __init__(self, model: Any, state: State | None, leaves_cache: bool = False):
        self.model, self.state, self.leaves_cache = model, state, leaves_cache

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's output for whole texts (B, T)."""
        arguments = named_arguments(type(self.model.segment_backbone()).forward, args, kwargs)
        cutting, outputs = self.encode(
            {name: value for name, value in arguments.items() if value is not None}
        )
        last = outputs[-1]
        result = last.backbone
        hidden = torch.cat([output.hidden for output in outputs], dim=1)
        result.last_hidden_state = assemble(hidden, self.shown(cutting.places))
        if result.get("hidden_states") is not None:
            result.hidden_states = self.layers(cutting, outputs)
        if self.leaves_cache:
            result.past_key_values = self.cache_behind(cutting, outputs)
        backbone = self.model.segment_backbone()
        if getattr(backbone, "pooler", None) is not None:
            result.pooler_output = pooled(backbone, last.hidden)
        if result.get("attentions") is not None and len(outputs) > 1:
            raise ConfigError(
                "output_attentions=True over several segments has no one map; give one segment at a time, "
                "with state= and return_state=True"
            )
        return result

    def shown(self, places: Tensor) -> Tensor:
        """Where the states (B, T) come from that a head sees.

        A decoder's head that pools takes the last token, and may look for it behind what was encoded: in
        padding, or where a long text was cut. There it finds the last token that was.
        """
        pools = head_of(type(self.model)) in POOLED and self.model.family.kind == "decoder"
        return torch.where(places < 0, places.cummax(dim=1).values, places) if pools else places

    def encode(self, arguments: dict[str, Any]) -> tuple[SegmentPlan, list[CellOutput]]:
        """Cut the texts among the arguments of the backbone, and encode their segments."""
        model = self.model
        refuse_in_segments(arguments, model.config)
        tokens = {name: value for name, value in arguments.items() if name in PER_TOKEN}
        first = next(iter(tokens.values()))
        mask = arguments.get("attention_mask")
        exists = None if mask is None else mask.bool().cpu()
        if exists is not None and self.state is None:
            require_tokens(exists)
        cutting = plan(tokens, exists, model.settings, model.layout, padding_id(model.config))
        handled = (*PER_TOKEN, *COUNTED_ANEW, "attention_mask")
        options = {name: value for name, value in arguments.items() if name not in handled}
        if model.family.kind == "decoder":
            options["use_cache"] = False
        options["return_dict"] = True
        cell = Cell(model, options, recorder_of(model, options, first.device))
        initial = model.initial_state(len(first))
        state = self.start = initial if self.state is None else self.state
        require_state(state)
        require_same_form(state, initial)
        *earlier, last = cutting.segments
        outputs = list(
            truncated(
                cell,
                [*earlier, last._replace(present=None)],  # a backbone's output has all rows
                state,
                model.settings.bptt,
                counted="last" if self.answers_from_last(last) else "all",
                checkpoint=model.settings.checkpoint,
            )
        )
        self.state = outputs[-1].state
        return cutting, outputs

    def answers_from_last(self, last: TextSegment) -> bool:
        """Whether an answer depends on the last segment alone, and on what memory brings there.

        A decoder's head that pools takes the last token that is no padding: in a row whose last segment has
        none, it comes from an earlier one.
        """
        model, ids = self.model, last.inputs.get("input_ids")
        if not depends_on_last_only(type(model), model.config, model.family):
            return False
        padding = getattr(model.config, "pad_token_id", None)
        if model.family.kind != "decoder" or model.settings.bptt == "full" or ids is None or padding is None:
            return True
        return bool(ids[:, model.settings.prefix :].ne(padding).any(1).all())

    def cache_behind(self, cutting: SegmentPlan, outputs: list[CellOutput]) -> SegmentCache:
        """A cache with which the texts go on behind their last segment."""
        state = outputs[-2].state if len(outputs) > 1 else self.start
        earlier = sum(
            (segment.alive.long() for segment in cutting.segments[:-1]), torch.zeros_like(state.cached)
        )
        last = cutting.segments[-1]
        pending = PendingRows(Cell(self.model).embed(last), last.exists & last.alive[:, None], earlier)
        return SegmentCache(self.model, state, pending, seen=cutting.places.shape[1])

    def layers(self, cutting: SegmentPlan, outputs: list[CellOutput]) -> tuple[Tensor, ...]:
        """The hidden states of all layers, each token's in its place."""
        cell = Cell(self.model)
        batch = len(cutting.places)

        def tokens(output: CellOutput, layer: Tensor) -> Tensor:
            rows = cell.unpack(layer, output.packed)[1]
            return rows if output.present is None else spread(rows, output.present, batch)

        by_segment = [
            [tokens(output, layer) for layer in output.backbone.hidden_states] for output in outputs
        ]
        return tuple(
            assemble(torch.cat(layer, dim=1), cutting.places) for layer in zip(*by_segment, strict=True)
        )


def pooled(backbone: Any, hidden: Tensor) -> Tensor:
    """What a backbone's pooler makes of a segment's tokens (B, S, D); ALBERT's is in two parts."""
    if hasattr(backbone, "pooler_activation"):
        pooled_rows: Tensor = backbone.pooler_activation(backbone.pooler(hidden[:, 0]))
        return pooled_rows
    rows: Tensor = backbone.pooler(hidden)
    return rows


def assemble(hidden: Tensor, places: Tensor) -> Tensor:
    """States of all segments side by side -> (B, T, D); zero where a token was nowhere."""
    return gather(hidden, places.clamp(min=0)).masked_fill((places < 0)[..., None], 0)
