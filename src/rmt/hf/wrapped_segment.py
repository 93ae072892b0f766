"""A segment of a wrapped decoder encoded piece by piece, as a native model's open segment is."""

# B batch · n new tokens · D width · V vocabulary

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor

from rmt.core.inputs import require_ids, require_lengths, require_state
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.stepping import SegmentCache


class WrappedSegment:
    """A segment of each row, encoded piece by piece as a native model's: `step(tokens)` …, then `close()`."""

    def __init__(self, model: Any, state: State):
        require_state(state)
        self.model, self.cache = model, SegmentCache(model, state)
        self.cache.begin(len(state.cached))

    def step(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encode the next tokens (B, n); their logits (B, n, V)."""
        logits: Tensor = self.model.embedding.logits(self.encode(tokens, lengths))
        return logits

    def encode(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encode the next tokens (B, n), of which rows may have their first `lengths` (B,): (B, n, D)."""
        require_ids(tokens)
        self.cache.begin(len(tokens))
        if lengths is None:
            lengths = torch.full_like(self.cache.length, tokens.shape[1])
        else:
            require_lengths(lengths, tokens)
        longest, most = int((self.cache.length + lengths).max()), self.model.settings.segment_length
        if longest > most:
            raise ConfigError(
                f"a segment of {longest} tokens is longer than segment_length={most}; close it before"
            )
        exists = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        return self.cache.encode(self.cache.cell.embedded(tokens), exists)

    def close(self) -> State:
        """Run the write block and return the state for the next segment; no tokens, no segment."""
        return self.fork().cache.close()

    def turn(self, rows: Tensor, state: State) -> None:
        """In these rows (B,), forget the segment and open a new one from `state`; the others go on."""
        self.cache.forget(rows, state)

    def fork(self) -> WrappedSegment:
        """The same segments, to go on in another way; tensors are shared, since none is written to."""
        other = copy(self)
        other.cache = self.cache.fork()
        return other

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept for the tokens to come."""
        layers = self.cache.inner.layers
        kept = [tensor for layer in layers if layer.keys is not None for tensor in (layer.keys, layer.values)]
        return sum(tensor.nbytes for tensor in (*kept, self.cache.read_rows, *self.cache.inputs))
