"""What attention kernels take and return: heads, which keys their queries see, and where gradients go."""

# S seeds · B batch · N = S·B segments · T queries · K keys · H heads · E head width · W distances

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.gpu.tiles import attention_rows


class Seen(NamedTuple):
    """Which keys each query sees, always an interval: max(first[i], missing[n]) <= key < stop[i].

    Tiles have `rows` queries or keys: those of queries end with the last query, those of keys begin with the
    first key. What a tile has between its start and stop it may see, or be seen by; all else it leaves out.
    """

    first: Tensor | None  # (T,) int32, the first key that a query sees; None: the first of all
    stop: Tensor  # (T,) int32, one behind the last
    key_starts: Tensor  # int32, for each tile of queries, where the keys that it sees begin
    key_stops: Tensor  # and end
    query_starts: Tensor  # int32, for each tile of keys, where the queries that see it begin
    query_stops: Tensor  # and end
    keys: int
    rows: int
    missing: Tensor | None = None  # (N,) int32, keys at the front that a segment does not have

    def mask(self) -> Tensor:
        """True where a query sees a key: (T, K), or (N, 1, T, K) if keys are missing."""
        key = torch.arange(self.keys, device=self.stop.device)
        visible = key < self.stop[:, None]
        if self.first is not None:
            visible &= key >= self.first[:, None]
        return visible if self.missing is None else visible & (key >= self.missing[:, None, None, None])


def seen_of(mask: Tensor, cache: bool = True) -> Seen:
    """What a mask (T, K) lets queries see; in each of its rows the visible keys are an interval, never empty.

    Without a cache every query sees the first key, and kernels need not ask. Nothing is asked of the host: a
    mask on a GPU is never waited for.
    """
    queries, keys = mask.shape
    rows = attention_rows(keys)
    first, stop = bounds(mask)
    key_bounds = bounds(F.pad(mask, (0, 0, -queries % rows, 0)).unflatten(0, (-1, rows)).any(1))
    query_bounds = bounds(F.pad(mask, (0, -keys % rows)).unflatten(1, (-1, rows)).any(2).mT)
    return Seen(first if cache else None, stop, *key_bounds, *query_bounds, keys, rows)


def bounds(mask: Tensor) -> tuple[Tensor, Tensor]:
    """For each row of a mask, its first true column and one behind the last; an empty range where none is."""
    column = torch.arange(mask.shape[1], device=mask.device, dtype=torch.int32)
    first = torch.where(mask, column, mask.shape[1]).amin(1)
    return first.int(), torch.where(mask, column + 1, 0).amax(1).int()


class Heads(NamedTuple):
    """Queries and what they attend to: softmax(scale · query keyᵀ + bias) value, over the visible keys.

    All are views with contiguous columns and any other strides.
    """

    query: Tensor  # (N, T, H, E)
    key: Tensor  # (N, K, H, E)
    value: Tensor  # (N, K, H, E)
    bias: Tensor | None  # (N, H, T, K or more)
    seen: Seen
    scale: float


class HeadGradients(NamedTuple):
    """Where the gradients of `Heads` are written; that of a bias only where its key may be seen."""

    query: Tensor  # (N, T, H, E)
    key: Tensor  # (N, K, H, E)
    value: Tensor  # (N, K, H, E)
    bias: Tensor | None  # (N, H, T, K or more)


class RelativeHeads(NamedTuple):
    """Heads with relative positions.

    Scores are scale · ((query + content) · key + (query + position) · distance), where query i and key j
    are at the distance of row T-1-i + j.
    """

    heads: Heads  # without a bias
    biases: Tensor  # (2, S, H, E) content and position
    distances: Tensor  # (H · S, W, E) projected, contiguous


class RelativeGradients(NamedTuple):
    """Where the gradients of `RelativeHeads` are written; to those of the biases they are added."""

    query: Tensor  # (N, T, H, E)
    key: Tensor  # (N, K, H, E)
    value: Tensor  # (N, K, H, E)
    biases: Tensor  # (S, B, 2, H, E)


class BiasedQueries(NamedTuple):
    """Queries as they ask for contents, and, scaled, for distances."""

    content: Tensor  # (N, T, H, E)
    position: Tensor  # (H, N, T, E)


class DistanceFactors(NamedTuple):
    """The gradient of projected distances as a product that is still to be made: to_scoresᵀ position."""

    to_scores: Tensor  # (H · S, B · T, W)
    position: Tensor  # (H · S, B · T, E)
