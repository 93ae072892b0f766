"""A segment read piece by piece: keys and values are kept, the write block runs once, at the end."""

# B batch · n new tokens · M memory · N layers · D width · V vocabulary

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rmt.core.state import State
from rmt.nn.backbone import Encoded

if TYPE_CHECKING:
    from rmt.core.model import SegmentModel


class OpenSegment:
    """Equal to the whole segment at once, since no token sees what comes after it."""

    def __init__(self, model: SegmentModel, state: State):
        self.model = model
        self.state = state
        self.length = 0
        spans = model.spans(0, write=False)
        axis = spans.axis(state.cached, None, model.config.memory.sees_cache)
        encoded = model.backbone(model.memory.incoming(state), axis, cache=state.cache)
        self.past, self.layer_inputs, self.read = encoded.seen, encoded.layer_inputs, encoded.hidden

    def step(self, tokens: Tensor) -> Tensor:
        """Read the next tokens (B, n); their logits (B, n, V)."""
        self.length += tokens.shape[1]
        return self.model.embedding.logits(self.advance(self.model.embedding(tokens), write=False).hidden)

    def close(self) -> State:
        """Run the write block and return the state for the next segment; no tokens, no segment."""
        if self.length == 0:
            return self.state
        memory = self.model.memory
        write = self.advance(memory.incoming(self.state)[:, : memory.write_size], write=True).hidden
        spans = self.model.spans(self.length)
        cache, cached = self.model.cache.push(self.state, self.layer_inputs, spans)
        return State(memory.carry(self.read, write, self.state), cache, cached)

    def advance(self, x: Tensor, write: bool) -> Encoded:
        """Encode the next rows of the axis (B, n, D) and keep what later rows need of them."""
        spans = self.model.spans(self.length, write)
        first = spans.keys - spans.cache - x.shape[1]
        axis = spans.axis(self.state.cached, None, self.model.config.memory.sees_cache, first)
        encoded: Encoded = self.model.backbone(x, axis, past=self.past)
        self.past = encoded.seen
        if self.model.cache.size:
            self.layer_inputs = tuple(
                torch.cat(rows, dim=1) for rows in zip(self.layer_inputs, encoded.layer_inputs, strict=True)
            )
        return encoded
