"""Attention of a model over the segments of a sequence, with the spans it runs over (the paper's Fig. 6)."""

# B batch · T tokens of all segments · L tokens of one · N layers · H heads · Q queries · K keys

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rmt.core.spans import Spans
from rmt.errors import ConfigError


class AttentionModel(Protocol):
    """What can be looked into: any segment model that tells its attention and its spans."""

    def initial_state(self, batch: int) -> Any: ...

    def spans(self, tokens: int) -> Spans: ...

    def __call__(self, tokens: Tensor, state: Any, *, attention: bool) -> Any: ...


class SegmentAttention(NamedTuple):
    """Who looked at whom in one segment."""

    weights: Tensor  # (N, H, Q, K)
    spans: Spans
    tokens: Tensor  # (L,)
    predicted: Tensor  # (L,) the likeliest next token at each position, from those before; (0,) = none

    def block(self, query: str, key: str) -> Tensor:
        """How one span looks at another, such as `block("write", "tokens")`: (N, H, rows, columns)."""
        return self.weights[:, :, rows(self.spans, query), columns(self.spans, key)]

    def labels(self, words: Sequence[str]) -> list[str]:
        """What stands at each query: memory by its slots, tokens by their `words`, such as a tokenizer's."""
        read = [f"read {slot + 1}" for slot in range(self.spans.read)]
        write = [f"write {slot + 1}" for slot in range(self.spans.write)]
        return [*read, *words, *write]


class SegmentBatch(NamedTuple):
    """One segment of a batch, as it goes by."""

    weights: Tensor  # (B, N, H, Q, K)
    spans: Spans
    tokens: Tensor  # (B, L)
    predicted: Tensor  # (B, L)


def capture(model: AttentionModel, tokens: Tensor, length: int | None = None) -> list[SegmentAttention]:
    """The attention of every segment of one sequence (T,), in segments of `length` tokens.

    A model that cuts its texts itself takes no length: `capture(rmt.hf.AttentionView(model), tokens)`.
    """
    if tokens.dim() != 1:
        raise ConfigError(
            f"tokens of shape {tuple(tokens.shape)} are not one sequence; give (T,), or use capture_mean"
        )
    return [
        SegmentAttention(part.weights[0], part.spans, part.tokens[0], part.predicted[0])
        for part in passing(model, tokens[None], length)
    ]


def capture_mean(model: AttentionModel, tokens: Tensor, length: int | None = None) -> list[SegmentAttention]:
    """The same for sequences (B, T), the attention averaged over them: what a head does whatever is read.

    Tokens and predictions are those of the first sequence.
    """
    return [
        SegmentAttention(part.weights.mean(0), part.spans, part.tokens[0], part.predicted[0])
        for part in passing(model, tokens, length)
    ]


@torch.no_grad()
def passing(model: AttentionModel, tokens: Tensor, length: int | None = None) -> Iterator[SegmentBatch]:
    """One segment after the other of a batch (B, T); nothing of it stays but what the caller keeps."""
    segments, state = cut(model, tokens, length), model.initial_state(len(tokens))
    for segment in segments:
        output = model(segment, state, attention=True)
        weights = torch.stack(output.attention, dim=1)
        yield SegmentBatch(weights, model.spans(segment.shape[1]), segment, output.logits.argmax(-1))
        state = output.state


def cut(model: Any, tokens: Tensor, length: int | None) -> Sequence[Tensor]:
    """The segments of a batch (B, T): those of a model that knows its own, or so long ones."""
    if (length is not None and length < 1) or tokens.numel() == 0:
        raise ConfigError(
            f"length={length} and tokens of shape {tuple(tokens.shape)} make no segment; give at least 1 each"
        )
    cut_by_model, name = getattr(model, "segments", None), type(model).__name__
    if not hasattr(model, "spans"):
        raise ConfigError(
            f"{name} tells no spans; if it is a wrapped model, give rmt.hf.AttentionView(model)"
        )
    if cut_by_model is None and length is None:
        raise ConfigError(f"{name} does not cut texts itself; give the length of a segment")
    if cut_by_model is not None and length is not None:
        raise ConfigError(f"length={length} has no effect, {name} cuts texts itself; leave it out")
    segments: Sequence[Tensor] = cut_by_model(tokens) if cut_by_model else tokens.split(length, dim=1)
    return segments


def columns(spans: Spans, name: str) -> slice:
    """Where a span lies on the axis of the keys."""
    number = Spans._fields.index(name)
    start = sum(spans[:number])
    return slice(start, start + spans[number])


def rows(spans: Spans, name: str) -> slice:
    """Where a span lies among the queries, which have no cache."""
    return columns(spans._replace(cache=0), name)


class HeadIndex(NamedTuple):
    """A head by its numbers, counted from 0."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"layer {self.layer + 1}, head {self.head + 1}"
