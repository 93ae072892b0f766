"""A wrapped model whose attention can be looked into, segment by segment (the paper's Fig. 6)."""

# B batch · T tokens of a text · S of a segment, special ones too · M memory · H heads · Q = S + M (+ M)

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rmt.core.model import Output
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.cell import Cell
from rmt.hf.head import Head
from rmt.hf.model import DecoderMemory, WithMemory
from rmt.hf.segments import Segment, plan


class AttentionView:
    """(tokens, state) -> attention over [read ∘ tokens ∘ write], what `rmt.analysis.capture` looks into.

    Special tokens are tokens: those that stand before the read block come behind it. An encoder-decoder
    shows its encoder, which is what reads the text.
    """

    def __init__(self, model: Any):
        self.model: Any = model
        if not isinstance(model, WithMemory):
            raise ConfigError(f"{type(model).__name__} has no memory; wrap it with rmt.add_memory first")
        self.predicts = isinstance(model, DecoderMemory) and self.model.get_output_embeddings() is not None

    def initial_state(self, batch: int) -> State:
        """The state before the first segment."""
        state: State = self.model.initial_state(batch)
        return state

    def segments(self, tokens: Tensor) -> list[Tensor]:
        """Texts (B, T) without padding as the model cuts them: special tokens in each segment (B, S)."""
        exists = torch.ones_like(tokens, dtype=torch.bool)
        cut = plan({"input_ids": tokens}, exists, self.model.settings, self.model.layout)
        return [segment.inputs["input_ids"] for segment in cut.segments]

    def spans(self, tokens: int) -> Spans:
        """The lengths of the spans of a segment with so many tokens."""
        size = self.model.settings.memory
        return Spans(0, size, tokens, size if self.model.layout.write else 0)

    def __call__(self, tokens: Tensor, state: State, *, attention: bool = False) -> Output:
        """Read one segment (B, S); logits are (B, 0, V) where the model predicts no next token."""
        exists = torch.ones_like(tokens, dtype=torch.bool)
        segment = Segment({"input_ids": tokens}, exists, exists[:, 0])
        options = {"output_attentions": attention, "return_dict": True}
        if isinstance(self.model, DecoderMemory):
            options["use_cache"] = False
        with eager(self.model) if attention else nullcontext():
            read = Cell(self.backbone(), self.model, options)(segment, state)
        logits = Head(self.model).logits(read.hidden) if self.predicts else read.hidden[:, :0]
        maps = tuple(self.read_first(one) for one in read.backbone.attentions) if attention else ()
        return Output(logits, read.state, maps)

    def backbone(self) -> Callable[..., Any]:
        """What reads one segment, knowing nothing of memory."""
        reader = self.model.reader()
        return partial(type(reader).plain.forward, reader) if reader is self.model else reader.forward

    def read_first(self, weights: Tensor) -> Tensor:
        """[before ∘ read ∘ tokens ∘ write] -> [read ∘ before ∘ tokens ∘ write], on both axes (B, H, Q, Q)."""
        place = torch.arange(weights.shape[-1], device=weights.device)
        before, read, rest = place.tensor_split(
            [self.model.layout.after, self.model.layout.after + self.model.settings.memory]
        )
        order = torch.cat([read, before, rest])
        return weights[:, :, order[:, None], order]


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Let a model attend by the implementation that gives its weights, for the length of one segment."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
