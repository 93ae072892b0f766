"""Multi-head attention of new rows over remembered and new rows."""

# B batch · H heads · Q queries · K keys · P past keys · E head width · D width

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rmt.nn.linear import Linear, linear


class KeyValue(NamedTuple):
    """Keys (already placed on the axis) and values of rows that can be attended to."""

    key: Tensor  # (B, H, K, E)
    value: Tensor  # (B, H, K, E)
    room: Tensor | None = None  # (2, B, H, K + …, E) both, with places for rows to come

    def append(self, other: KeyValue) -> KeyValue:
        """These rows and others behind them; where there is room, they are written there, so only once."""
        start, stop = self.key.shape[-2], self.key.shape[-2] + other.key.shape[-2]
        if self.room is not None and stop <= self.room.shape[-2]:
            self.room[0, ..., start:stop, :] = other.key
            self.room[1, ..., start:stop, :] = other.value
            return KeyValue(self.room[0, ..., :stop, :], self.room[1, ..., :stop, :], self.room)
        if start == 0:
            return other
        return KeyValue(
            torch.cat([self.key, other.key], dim=-2), torch.cat([self.value, other.value], dim=-2)
        )

    def with_room(self, rows: int) -> KeyValue:
        """The same rows with places for more: rows that come one by one are not all copied each time."""
        *shape, known, width = self.key.shape
        room = self.key.new_empty(2, *shape, known + rows, width)
        return KeyValue(room[0, ..., :0, :], room[1, ..., :0, :], room).append(self)

    def without_room(self) -> KeyValue:
        """The same rows, to go on in another way than whoever has the room."""
        return self._replace(room=None)

    @property
    def nbytes(self) -> int:
        return self.key.nbytes + self.value.nbytes if self.room is None else self.room.nbytes


class Attended(NamedTuple):
    output: Tensor  # (B, H, Q, E)
    weights: Tensor  # (B, H, Q, K), or empty where the kernel does not tell


Attend = Callable[[Tensor, KeyValue, Tensor, Tensor], Attended]


def fused(query: Tensor, seen: KeyValue, bias: Tensor, mask: Tensor) -> Attended:
    """Attention through torch's fused kernels; `bias` is () for none, or (B, H, Q, K)."""
    visible = torch.where(mask, bias, -math.inf) if bias.dim() else mask
    output = F.scaled_dot_product_attention(query, seen.key, seen.value, attn_mask=visible)
    return Attended(output, query.new_empty(0))


def eager(query: Tensor, seen: KeyValue, bias: Tensor, mask: Tensor) -> Attended:
    """The naive twin of `fused`, which also returns the attention weights."""
    scores = query @ seen.key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + bias
    weights = torch.where(mask, scores, -math.inf).softmax(dim=-1)
    return Attended(weights @ seen.value, weights)


class Attention(nn.Module):
    """Bias-free attention: fused query, key, value projection; positions; output projection."""

    def __init__(self, width: int, heads: int, head_width: int, positions: nn.Module):
        super().__init__()
        self.heads, self.head_width = heads, head_width
        self.qkv = Linear(width, 3 * heads * head_width, bias=False)
        self.out = Linear(heads * head_width, width, bias=False)
        self.positions: Any = positions

    def remember(self, x: Tensor, table: Any, start: int = 0) -> KeyValue:
        """Keys and values of rows (B, P, D) that stand on the axis from `start` on."""
        weight = self.qkv.weight[self.heads * self.head_width :]
        key, value = self.split(linear(x, weight), 2)
        return KeyValue(self.positions.key(key, table, slice(start, start + x.shape[1])), value)

    def forward(
        self, x: Tensor, past: KeyValue, table: Any, mask: Tensor, attend: Attend
    ) -> tuple[Tensor, KeyValue, Tensor]:
        """New rows x (B, Q, D) look at the past and at each other; returns them, all keys, the weights."""
        query, key, value = self.split(self.qkv(x), 3)
        start = past.key.shape[-2]
        new = KeyValue(self.positions.key(key, table, slice(start, start + x.shape[1])), value)
        seen = past.append(new)
        bias = self.positions.bias(query, table)
        output, weights = attend(self.positions.query(query, table), seen, bias, mask)
        return self.out(output.transpose(1, 2).flatten(-2)), seen, weights

    def split(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        """(B, Q, parts · H · E) -> parts × (B, H, Q, E)."""
        rows = projected.chunk(parts, dim=-1)
        return tuple(part.unflatten(-1, (self.heads, self.head_width)).transpose(1, 2) for part in rows)
