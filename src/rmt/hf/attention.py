"""A wrapped model whose attention can be looked into, segment by segment (the paper's Fig. 6)."""

# B batch · T tokens of a text · S of a segment, special ones too · H heads · Q queries · K keys

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.utils.output_capturing import maybe_install_capturing_hooks

from rmt.core.cache import Cache
from rmt.core.model import Output
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.cell import Cell
from rmt.hf.copies import with_attention
from rmt.hf.decoder import DecoderMemory
from rmt.hf.head import Head
from rmt.hf.model import WithMemory
from rmt.hf.segments import TextSegment, plan


class AttentionView:
    """(tokens, state) -> attention over [cache ∘ read ∘ tokens ∘ write]: what `rmt.analysis.capture` takes.

    Special tokens are tokens: those that stand before the read block come behind it. An encoder-decoder
    shows its encoder, which is what takes the text.
    """

    def __init__(self, model: Any):
        if not isinstance(model, WithMemory):
            raise ConfigError(f"{type(model).__name__} has no memory; wrap it with rmt.add_memory first")
        self.model: Any = model
        self.cache = Cache(self.model.settings.cache_config)
        self.predicts = isinstance(model, DecoderMemory) and self.model.get_output_embeddings() is not None

    def initial_state(self, batch: int) -> State:
        """The state before the first segment."""
        state: State = self.model.initial_state(batch)
        return state

    def segments(self, tokens: Tensor) -> list[Tensor]:
        """Texts (B, T) without padding as the model cuts them: special tokens in each segment (B, S)."""
        cutting = plan({"input_ids": tokens}, None, self.model.settings, self.model.layout)
        return [segment.inputs["input_ids"] for segment in cutting.segments]

    def spans(self, tokens: int) -> Spans:
        """The lengths of the spans of a segment with so many tokens."""
        return Spans(self.cache.rows, self.model.memory.read_size, tokens, self.model.memory.write_size)

    def __call__(self, tokens: Tensor, state: State, *, attention: bool = False) -> Output:
        """Encode one segment (B, S); logits are (B, 0, V) where the model predicts no next token."""
        exists = torch.ones_like(tokens, dtype=torch.bool)
        segment = TextSegment({"input_ids": tokens}, exists, exists[:, 0])
        options = {"output_attentions": attention, "return_dict": True}
        if isinstance(self.model, DecoderMemory):
            options["use_cache"] = False
        encoded = Cell(self.eager() if attention else self.model, options)(segment, state)
        logits = Head(self.model).logits(encoded.hidden) if self.predicts else encoded.hidden[:, :0]
        maps = tuple(self.read_first(weights) for weights in encoded.backbone.attentions) if attention else ()
        return Output(logits, encoded.state, maps)

    def eager(self) -> Any:
        """The model around the same weights with the implementation that gives its attention."""
        maybe_install_capturing_hooks(self.model.segment_backbone())  # once, or each copy would add its own
        return with_attention(self.model, "eager")

    def read_first(self, weights: Tensor) -> Tensor:
        """[cache ∘ before ∘ read ∘ tokens ∘ write] -> [cache ∘ read ∘ before ∘ tokens ∘ write] (B, H, Q, K).

        Rows of the cache are no queries: what they look at now, in front of the segment, goes nowhere.
        """
        places = torch.arange(weights.shape[-1], device=weights.device)
        cached, after = self.cache.rows, self.cache.rows + self.model.layout.after
        borders = [cached, after, after + self.model.memory.read_size]
        cache, before, read, rest = places.tensor_split(borders)
        order = torch.cat([cache, read, before, rest])
        return weights[:, :, order[cached:, None], order]
