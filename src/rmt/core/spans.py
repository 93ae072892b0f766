"""The key axis of a segment, [cache ∘ read ∘ tokens ∘ write], and who sees whom on it (Fig. 6d)."""

# B batch · L tokens · M memory · C cache · Q = M+L+M · K = C+Q

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rmt.nn.axis import Axis


class Spans(NamedTuple):
    """Lengths of the four spans; positions are indices on this axis."""

    cache: int
    read: int
    tokens: int
    write: int

    @property
    def keys(self) -> int:
        return sum(self)

    @property
    def queries(self) -> int:
        return self.read + self.tokens + self.write

    def split(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, Q, D) -> read (B, M, D), tokens (B, L, D), write (B, M, D)."""
        read, tokens, write = hidden.split([self.read, self.tokens, self.write], dim=1)
        return read, tokens, write

    def mask(
        self, memory_sees_cache: bool = False, first: int = 0, device: torch.device | None = None
    ) -> Tensor:
        """Who sees whom, for the queries from number `first` on: (Q - first, K), True = visible.

        Causal, plus each memory block sees itself whole; memory sees the cache only if asked to.
        """
        key = torch.arange(self.keys, device=device)
        query = key[self.cache + first :, None]
        tokens, write = self.cache + self.read, self.cache + self.read + self.tokens
        visible = (key <= query) | ((query < tokens) & (key < tokens)) | (query >= write)
        if memory_sees_cache:
            return visible
        is_memory = (query < tokens) | (query >= write)
        return visible & ~(is_memory & (key < self.cache))

    def axis(
        self, cached: Tensor, valid: Tensor | None, memory_sees_cache: bool = False, first: int = 0
    ) -> Axis:
        """The axis for attention, if `cached` (B,) cache rows exist and `valid` (B, L) tokens, or all."""
        mask = self.mask(memory_sees_cache, first, cached.device)
        positions = torch.arange(self.keys, device=cached.device)
        if self.cache == 0 and valid is None:
            return Axis(positions, mask, cached + self.keys)
        present = positions >= self.cache - cached[:, None]  # (B, K)
        if valid is not None:
            exists = torch.nn.functional.pad(valid, (self.cache + self.read, self.write), value=True)
            present, positions = present & exists, exists.cumsum(1) - 1  # padding takes no place on the axis
        itself = torch.eye(self.keys, dtype=torch.bool, device=cached.device)[self.cache + first :]
        return Axis(positions, (mask & (present[:, None] | itself))[:, None], present.sum(1))
