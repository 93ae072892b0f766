"""One segment on its way through the fast layers: what they are asked for, and what backward will need."""

# S seeds · B batch · R rows of a segment · T rows that come out of a layer · C cached rows · N rows, flat
# D width · H heads · E head width · F inner width

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.gpu.dropout import Dropout
from rmt.gpu.heads import Seen
from rmt.gpu.norms import Normed
from rmt.gpu.parameters import FastParameters
from rmt.gpu.weight_gradients import Slot
from rmt.nn.axis import Axis


@dataclass
class SegmentCall:
    """A segment to be encoded, and its records."""

    weights: FastParameters
    axis: Axis
    rows: int  # R
    last: int  # rows that come out of the last layer
    dropout: Dropout
    keeps: bool  # whether records are kept, for a backward pass
    missing: Tensor | None = None  # (S · B,) cached rows that do not exist yet
    records: list[LayerRecord] = field(default_factory=list)
    output: Normed | None = None  # behind the last layer, before and behind the last norm

    def forget(self) -> None:
        """Drop the records."""
        self.records, self.output = [], None

    def normed_input(self, layer: int) -> Normed:
        """What went into a layer, or came out of the last."""
        if layer < len(self.records):
            return self.records[layer].normed_input
        assert self.output is not None, "the records of a segment that is differentiated"
        return self.output

    @property
    def cache(self) -> int:
        """C, the cached rows."""
        return self.axis.mask.shape[-1] - self.rows

    @property
    def is_fused(self) -> bool:
        """Whether a kernel takes rows from attention to attention, past everything between."""
        return self.weights.is_fused and not self.cache

    @property
    def waits(self) -> bool:
        """Whether the rows that matrices multiply are written where they wait for their gradients."""
        return self.keeps and self.is_fused

    def is_last(self, layer: int) -> bool:
        """Whether no layer follows."""
        return layer + 1 == self.weights.config.layers

    def rows_out(self, layer: int) -> int:
        """T, the rows that come out of a layer."""
        return self.last if self.is_last(layer) else self.rows

    def seen(self, rows_out: int) -> Seen:
        """What the last rows see."""
        seen = self.weights.tables.seen(self.axis.mask[-rows_out:], self.cache)
        return seen._replace(missing=self.missing)

    def flat(self, x: Tensor) -> Tensor:
        """Rows (…, width) in a row and padded, (S, N, D), in the format of the residual stream."""
        padding = self.weights.width - x.shape[-1]
        rows = F.pad(x, (0, padding)) if padding else x.contiguous()
        return rows.reshape(self.weights.seeds, -1, self.weights.width).to(self.weights.residual_dtype)

    def unpadded(self, rows: Tensor, x: Tensor) -> Tensor:
        """Rows (S, N, D) as (…, rows of a segment, width), like x."""
        width = x.shape[-1]
        return rows[..., :width].reshape(*x.shape[:-2], -1, width)

    def last_rows(self, x: Tensor, rows_out: int) -> Tensor:
        """The last rows of every segment: (S, B · R, D) -> (S, B · T, D)."""
        if rows_out == self.rows:
            return x
        seeds, _, width = x.shape
        return x.view(seeds, -1, self.rows, width)[:, :, -rows_out:].reshape(seeds, -1, width).contiguous()

    def all_rows(self, x: Tensor, rows_out: int) -> Tensor:
        """The other way round: (S, B · T, D) -> (S, B · R, D), zeros in front of the last rows."""
        if rows_out == self.rows:
            return x
        return F.pad(x.unflatten(1, (-1, rows_out)), (0, 0, self.rows - rows_out, 0)).flatten(1, 2)

    def behind_cache(self, cached: Tensor, x: Tensor) -> Tensor:
        """[cache ∘ segment] of every row: (S, B · C, D) and (S, B · R, D) -> (S, B · (C+R), D)."""
        parts = cached.unflatten(1, (-1, self.cache)), x.unflatten(1, (-1, self.rows))
        return torch.cat(parts, dim=2).flatten(1, 2)

    def split_cache(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The other way round, and apart, as they lie there: (S, B, C, D) and (S, B, R, D)."""
        cached, rows = x.unflatten(1, (-1, self.cache + self.rows)).split([self.cache, self.rows], dim=2)
        return cached, rows


class AttentionRecord(NamedTuple):
    """What attention keeps for its gradient."""

    projected: Tensor  # (S, N, 3 · H · E) queries, keys, values; rotated, if positions are rotary
    query: Tensor  # (S · B, T, H, E) as it is scored against keys
    position: Tensor | None  # (H, S, N, E) as it is scored against distances
    bias: Tensor | None  # (S · B, H, T, K padded) scores of distances, aligned with the keys
    output: Tensor  # (S · B, T, H, E)
    lse: Tensor  # (S · B, H, T) logarithms of the sums of exponentials


class LayerRecord(NamedTuple):
    """What a layer keeps; slots hold the rows that its matrices multiplied."""

    normed_input: Normed  # the segment's rows, before and behind the norm in front of the layer
    cached: Normed | None  # the rows of the cache, likewise
    attention: AttentionRecord
    middle: Normed  # the rows behind attention, and the norm of them
    qkv: Slot
    out: Slot
    up: Slot
    down: Slot


class LayerGradients(NamedTuple):
    """What comes back from the end of a layer to its attention."""

    down: Tensor  # (S, N, D) of what the feed-forward block adds
    inner: Tensor  # (S, N, F) of what ReLU saw
    middle: Tensor  # (S, N, D) of the rows behind attention
    out: Tensor  # (S, N, D) of what attention adds
    attended: Tensor  # (S, N, H · E) of what attention gave


class Slots(NamedTuple):
    """The rows that the matrices behind attention multiply."""

    out: Slot
    up: Slot
    down: Slot
    next_qkv: Slot  # of the next layer


class FusedLayer(NamedTuple):
    """A layer whose rows a kernel takes from attention to attention."""

    weights: FastParameters
    layer: int
    dropout: Dropout
