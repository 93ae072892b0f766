"""Position schemes: how the distance between a query and a key enters their attention score.

Each scheme is two modules. The one the backbone owns turns an `Axis` into a table, once per segment;
the one each layer owns applies that table: `key` and `query` place rows, `bias` adds to the scores.
"""

# B batch · H heads · Q queries · K keys · E head width · D width · W distances

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rmt.nn.axis import Axis
from rmt.nn.linear import Linear
from rmt.nn.widest import widest


def frequencies(width: int, device: torch.device) -> Tensor:
    """The `width` / 2 angular frequencies of the Transformer's sinusoids, as fine as can be."""
    return 10000.0 ** (-torch.arange(0, width, 2, dtype=widest(device), device=device) / width)


class RelativeTable(NamedTuple):
    """Everything about distances that the layers of one call share."""

    rows: Tensor  # (W, D) sinusoids of the distances K-1 … -Q-1 and some more that nobody needs
    content_bias: Tensor  # (H, E) u
    position_bias: Tensor  # (H, E) v
    axis: Axis


class Relative(nn.Module):
    """Transformer-XL's relative positions: ((q + u)·k + (q + v)·r(i - j)) / sqrt(E), for signed distances."""

    def __init__(self, width: int, heads: int, head_width: int, dropout: float):
        super().__init__()
        self.width = width
        self.content_bias = nn.Parameter(torch.empty(heads, head_width))
        self.position_bias = nn.Parameter(torch.empty(heads, head_width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, axis: Axis) -> RelativeTable:
        queries, keys = axis.mask.shape[-2:]
        spare = -(keys + queries + 1) % 8  # products want a width that 8 divides
        distances = torch.arange(keys - 1, -queries - 2 - spare, -1, device=axis.mask.device)
        angles = distances[:, None] * frequencies(self.width, axis.mask.device)
        rows = torch.cat([angles.sin(), angles.cos()], dim=-1).to(self.content_bias.dtype)
        return RelativeTable(self.dropout(rows), self.content_bias, self.position_bias, axis)


class RelativeLayer(nn.Module):
    """One layer's share of `Relative`: its projection of the sinusoids."""

    def __init__(self, width: int, heads: int, head_width: int):
        super().__init__()
        self.heads = heads
        self.project = Linear(width, heads * head_width, bias=False)

    def key(self, key: Tensor, table: RelativeTable, rows: slice) -> Tensor:
        return key

    def query(self, query: Tensor, table: RelativeTable) -> Tensor:
        return query + table.content_bias[:, None]

    def bias(self, query: Tensor, table: RelativeTable) -> Tensor:
        """What to add to the scores: (B, H, Q, E) -> (B, H, Q, K).

        One product per head, over all rows of the batch; distances are the same for all of them.
        """
        r = self.project(table.rows).unflatten(-1, (self.heads, -1))  # (W, H, E)
        asked = (query + table.position_bias[:, None]) / math.sqrt(query.shape[-1])
        scores = asked.transpose(0, 1).flatten(1, 2) @ r.permute(1, 2, 0)  # (H, B · Q, W)
        return self.align(scores.unflatten(1, (len(query), query.shape[2])).transpose(0, 1), table.axis)

    def align(self, scores: Tensor, axis: Axis) -> Tensor:
        """Column w of `scores` is distance K-1-w; put each where its key is."""
        queries, keys = axis.mask.shape[-2:]
        if axis.positions.dim() == 1:
            return shift(scores, keys)
        distance = axis.positions[:, keys - queries :, None] - axis.positions[:, None, :]  # (B, Q, K)
        column = (keys - 1 - distance)[:, None].expand(-1, scores.shape[1], -1, -1)
        return scores.gather(-1, column)


def shift(scores: Tensor, keys: int) -> Tensor:
    """Skew (…, Q, W > K+Q) so that row i, column j holds what was at column j + Q-1-i: a view (…, Q, K)."""
    queries, columns = scores.shape[-2:]
    flat = scores.flatten(-2)[..., queries - 1 : queries * columns - 1]
    return flat.unflatten(-1, (queries, columns - 1))[..., :keys]


class WrappedRelativeLayer(RelativeLayer):
    """The original code's shift, which wraps around above the diagonal.

    For a key that lies behind its query (inside a memory block), distance -1 scores zero, and distance
    -1-e scores what the NEXT query gives to distance k - e, k the number of keys.
    """

    def align(self, scores: Tensor, axis: Axis) -> Tensor:
        queries, keys = axis.mask.shape[-2:]
        query = torch.arange(queries, device=scores.device)[:, None]
        distance = query + (keys - queries) - torch.arange(keys, device=scores.device)  # (Q, K)
        wrapped = axis.present[:, None, None] + distance + 1  # (B, Q, K)
        row = torch.where(distance <= -2, query + 1, query)
        column = (keys - 1 - torch.where(distance >= 0, distance, wrapped)).clamp(min=0)
        index = (row * scores.shape[-1] + column).flatten(1)[:, None].expand(-1, scores.shape[1], -1)
        aligned = scores.flatten(-2).gather(-1, index).unflatten(-1, (queries, keys))
        return aligned.masked_fill(distance == -1, 0.0)


class RotaryTable(NamedTuple):
    """Cosines and sines of every position of the axis, (K, E) or (B, 1, K, E)."""

    cosine: Tensor
    sine: Tensor


class Rotary(nn.Module):
    """Rotary positions: queries and keys are turned by their place, so scores depend on distance only."""

    like: Tensor  # has the model's number format

    def __init__(self, width: int, heads: int, head_width: int, dropout: float):
        super().__init__()
        self.head_width = head_width
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def forward(self, axis: Axis) -> RotaryTable:
        angles = axis.positions[..., None] * frequencies(self.head_width, axis.mask.device)
        angles = angles.tile(2)  # (K, E) or (B, K, E)
        if angles.dim() == 3:
            angles = angles[:, None]
        return RotaryTable(angles.cos().to(self.like.dtype), angles.sin().to(self.like.dtype))


class RotaryLayer(nn.Module):
    """One layer's share of `Rotary`: no parameters."""

    def __init__(self, width: int, heads: int, head_width: int):
        super().__init__()

    def key(self, key: Tensor, table: RotaryTable, rows: slice) -> Tensor:
        return turn(key, table.cosine[..., rows, :], table.sine[..., rows, :])

    def query(self, query: Tensor, table: RotaryTable) -> Tensor:
        rows = slice(table.cosine.shape[-2] - query.shape[-2], None)
        return turn(query, table.cosine[..., rows, :], table.sine[..., rows, :])

    def bias(self, query: Tensor, table: RotaryTable) -> Tensor:
        return query.new_zeros(())


def turn(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate the pairs (x_t, x_{t + E/2}) by their angles."""
    first, second = x.chunk(2, dim=-1)
    return (x * cosine + torch.cat([-second, first], dim=-1) * sine).to(x.dtype)


SCHEMES: dict[str, tuple[Any, Any]] = {
    "relative": (Relative, RelativeLayer),
    "rotary": (Rotary, RotaryLayer),
    "relative-lm-rmt": (Relative, WrappedRelativeLayer),
}
