"""Whole segments of a wrapped decoder, nothing of them decided on the host: what can be exported."""

# B batch · L tokens · V vocabulary

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rmt.core.model import Output
from rmt.core.state import State
from rmt.hf.cell import Cell
from rmt.hf.head import Head
from rmt.hf.segments import TextSegment


class WholeSegments(nn.Module):
    """(tokens, state) -> (logits, state) where every row has the whole segment."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.settings = model.settings

    def initial_state(self, batch: int) -> State:
        """The state before the first segment."""
        state: State = self.model.initial_state(batch)
        return state

    def forward(self, tokens: Tensor, state: State) -> Output:
        """Encode one segment (B, L) and predict from it."""
        exists = torch.ones_like(tokens, dtype=torch.bool)
        segment = TextSegment({"input_ids": tokens}, exists, exists[:, 0], whole=True)
        cell = Cell(self.model, {"use_cache": False, "return_dict": True})
        encoded = cell(segment, state)
        return Output(Head(self.model).logits(encoded.hidden), encoded.state)
