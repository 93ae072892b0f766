"""A wrapped language model seen as a segment model, for everything that drives one segment at a time."""

# B batch · L tokens · V vocabulary

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rmt.core.inputs import require_ids, require_lengths
from rmt.core.model import Output
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.decoder import DecoderMemory
from rmt.hf.wrapped_segment import WrappedSegment


class SegmentView(nn.Module):
    """(tokens, state) -> (logits, state), with `initial_state` and `open`, as `rmt.SegmentModel` has them."""

    def __init__(self, model: Any):
        super().__init__()
        if not isinstance(model, DecoderMemory) or model.get_output_embeddings() is None:
            raise ConfigError(
                f"{type(model).__name__} gives no logits of a next token; wrap a causal language model"
            )
        self.model: DecoderMemory = model

    def initial_state(self, batch: int) -> State:
        """The state before the first segment."""
        return self.model.initial_state(batch)

    def forward(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> Output:
        """Encode one segment (B, L); `lengths` (B,) makes the batch ragged, a row of none keeps its state."""
        require_ids(tokens)
        if lengths is not None:
            require_lengths(lengths, tokens)
        longest = self.model.settings.segment_length
        if tokens.shape[1] > longest:
            raise ConfigError(
                f"a segment of {tokens.shape[1]} tokens is longer than segment_length={longest}"
            )
        column = torch.arange(tokens.shape[1], device=tokens.device)
        exists = None if lengths is None else (column < lengths[:, None]).long()
        output = self.model(
            input_ids=tokens,
            attention_mask=exists,
            state=state,
            return_state=True,
            use_cache=False,
            return_dict=True,
        )
        return Output(output.logits, output.state)

    def open(self, state: State, room: int = 0) -> WrappedSegment:
        """A segment to be encoded piece by piece."""
        return self.model.open(state, room)
