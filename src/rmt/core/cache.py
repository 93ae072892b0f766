"""Transformer-XL's cache: the last C inputs of every layer, without gradient (section 3)."""

# B batch · C rows of the cache · n rows of a segment · N layers · D width

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.config import CacheConfig
from rmt.core.spans import Spans
from rmt.core.state import State

LayerInputs = tuple[Tensor, ...]  # N × (B, n, D)


class Cache:
    """SG(M^n_{-C:}); a size of zero keeps nothing.

    With a `sink`, it also keeps the first rows of a sequence (Xiao et al., 2024): pretrained decoders attend
    to those where they look for nothing, and predict badly without them.
    """

    def __init__(self, config: CacheConfig):
        self.size, self.sink, self.rows = config.size, config.sink, config.rows
        self.scope = config.scope

    def push(
        self, state: State, layer_inputs: LayerInputs, spans: Spans, valid: Tensor | None = None
    ) -> tuple[LayerInputs, Tensor]:
        """The cache after a segment, born detached: N × (B, C, D) and how many rows of it are valid (B,)."""
        if self.size == 0:
            return state.cache, state.cached
        new = tuple(self.kept(h.detach(), spans) for h in layer_inputs)
        if valid is not None or self.sink:
            return self.push_selected(state, new, spans, valid)
        cache = tuple(self.last_rows(old, rows) for old, rows in zip(state.cache, new, strict=True))
        return cache, (state.cached + new[0].shape[1]).clamp(max=self.size)

    def kept(self, h: Tensor, spans: Spans) -> Tensor:
        """The rows of a segment that are cached: its tokens, or all of them."""
        return h if self.scope == "all" else spans.split(h)[1]

    def last_rows(self, old: Tensor, new: Tensor) -> Tensor:
        """The last C of rows (B, C, D) and of new ones behind them."""
        return torch.cat([old[:, new.shape[1] :], new[:, -self.size :]], dim=1)

    def push_selected(
        self, state: State, new: LayerInputs, spans: Spans, valid: Tensor | None
    ) -> tuple[LayerInputs, Tensor]:
        """As `push`, where rows may have padding: it is left out row by row."""
        if valid is None:
            valid = torch.ones(new[0].shape[:2], dtype=torch.bool, device=state.cached.device)
        elif self.scope == "all":
            valid = F.pad(valid, (spans.read, spans.write), value=True)
        joined = tuple(torch.cat(rows, dim=1) for rows in zip(state.cache, new, strict=True))
        return self.select(joined, torch.cat([self.valid(state.cached), valid], dim=1))

    def select(self, rows: LayerInputs, present: Tensor) -> tuple[LayerInputs, Tensor]:
        """Of rows (B, n, D) in the order of the sequence, those to keep; only `present` (B, n) ones count."""
        number = present.cumsum(dim=1)
        keep = present & ((number <= self.sink) | (number > number[:, -1:] - self.size))
        missing = max(0, self.rows - keep.shape[1])
        padded = F.pad(keep, (missing, 0))
        order = padded.int().argsort(dim=1, stable=True)[:, -self.rows :, None]  # kept rows last, in order
        cache = tuple(F.pad(inputs, (0, 0, missing, 0)).take_along_dim(order, dim=1) for inputs in rows)
        return cache, keep.sum(dim=1)

    def valid(self, cached: Tensor) -> Tensor:
        """Which rows of the cache (B, C) are valid if the last `cached` (B,) are."""
        return torch.arange(self.rows, device=cached.device) >= self.rows - cached[:, None]


def cache_reach(layers: int, length: int, size: int) -> int:
    """How many tokens before a segment can change its outputs through a cache of `size` tokens alone.

    In each layer a state sees the cache of its own segment, so below the last one whole segments of `length`
    tokens are passed: (N-1) · L · ⌈C/L⌉ + C. A sink, which reaches the first tokens of all, is not counted.
    """
    return (layers - 1) * length * ceil(size / length) + size
