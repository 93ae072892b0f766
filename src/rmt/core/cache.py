"""Transformer-XL's cache: the last C inputs of every layer, without gradient (section 3)."""

# B batch · C cache · Q rows of a segment · N layers · D width

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor

from rmt.core.config import CacheConfig
from rmt.core.spans import Spans
from rmt.core.state import State


class Cache:
    """SG(M^n_{-C:}); a size of zero keeps nothing."""

    def __init__(self, config: CacheConfig):
        self.size = config.size
        self.scope = config.scope

    def push(
        self, state: State, layer_inputs: tuple[Tensor, ...], spans: Spans, valid: Tensor | None = None
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """The cache after a segment, born detached: N × (B, C, D) and how many rows of it are valid (B,)."""
        if self.size == 0:
            return state.cache, state.cached
        new = tuple(self.kept(h.detach(), spans) for h in layer_inputs)
        if valid is not None:
            return self.push_ragged(state, new, spans, valid)
        cache = tuple(self.last_rows(old, rows) for old, rows in zip(state.cache, new, strict=True))
        return cache, (state.cached + new[0].shape[1]).clamp(max=self.size)

    def kept(self, h: Tensor, spans: Spans) -> Tensor:
        """The rows of a segment that are cached: its tokens, or all of them."""
        return h if self.scope == "all" else spans.split(h)[1]

    def last_rows(self, old: Tensor, new: Tensor) -> Tensor:
        """The last C of rows (B, C, D) and of new ones behind them."""
        return torch.cat([old[:, new.shape[1] :], new[:, -self.size :]], dim=1)

    def push_ragged(
        self, state: State, new: tuple[Tensor, ...], spans: Spans, valid: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """As `push`, with padding left out row by row."""
        if self.scope == "all":
            valid = torch.nn.functional.pad(valid, (spans.read, spans.write), value=True)
        old = torch.arange(self.size, device=valid.device) >= self.size - state.cached[:, None]
        present = torch.cat([old, valid], dim=1)
        order = present.int().argsort(dim=1, stable=True)[:, -self.size :, None]  # valid rows last, in order
        cache = tuple(
            torch.cat([rows, fresh], dim=1).take_along_dim(order, dim=1)
            for rows, fresh in zip(state.cache, new, strict=True)
        )
        return cache, present.sum(dim=1).clamp(max=self.size)


def cache_reach(layers: int, length: int, size: int) -> int:
    """How many tokens before a segment can change its outputs through a cache of `size` tokens alone.

    In each layer a state sees the cache of its own segment, so below the last one whole segments of `length`
    tokens are passed: (N-1) · L · ⌈C/L⌉ + C.
    """
    return (layers - 1) * length * ceil(size / length) + size
