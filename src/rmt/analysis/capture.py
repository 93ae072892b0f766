"""Attention of a model over the segments of one example, with the spans it runs over."""

# N layers · H heads · Q queries · K keys

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.core.spans import Spans


class SegmentAttention(NamedTuple):
    """Who looked at whom in one segment."""

    weights: Tensor  # (N, H, Q, K)
    spans: Spans

    def block(self, query: str, key: str) -> Tensor:
        """How one span looks at another, such as `block("write", "tokens")`: (N, H, rows, columns)."""
        columns = place(self.spans, key)
        rows = place(self.spans._replace(cache=0), query)
        return self.weights[:, :, rows, columns]


@torch.no_grad()
def capture(model: SegmentModel, tokens: Tensor, length: int) -> list[SegmentAttention]:
    """The attention of every segment of one sequence (T,), in segments of `length` tokens."""
    state, captured = model.initial_state(1), []
    for segment in tokens[None].split(length, dim=1):
        output = model(segment, state, attention=True)
        captured.append(SegmentAttention(torch.cat(output.attention), model.spans(segment.shape[1])))
        state = output.state
    return captured


def place(spans: Spans, name: str) -> slice:
    """Where a span lies on the axis."""
    number = Spans._fields.index(name)
    start = sum(spans[:number])
    return slice(start, start + spans[number])


class Head(NamedTuple):
    layer: int
    head: int


def strongest(block: Tensor) -> Head:
    """The head whose rows look most sharply into a block (N, H, rows, columns): the largest mean maximum."""
    sharpness = block.amax(-1).mean(-1)  # (N, H)
    index = int(sharpness.argmax())
    return Head(index // sharpness.shape[1], index % sharpness.shape[1])
