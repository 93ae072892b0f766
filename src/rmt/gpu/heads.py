"""What attention kernels take and return: heads, which keys their queries see, and where gradients go."""

# S seeds · B batch · N = S·B segments · T queries · K keys · H heads · E head width · W distances

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Seen(NamedTuple):
    """Which keys each query sees, always an interval: max(first[i], missing[n]) <= key < stop[i].

    The queries that see a key lie between `first_query` and `stop_query`, but not all of those need see it.
    From these four a tile of any size finds the keys or queries that it can leave out.
    """

    first: Tensor  # (T,) int32, the first key that a query sees
    stop: Tensor  # (T,) int32, one behind the last
    first_query: Tensor  # (K,) int32, the first query that sees a key; T if none does
    stop_query: Tensor  # (K,) int32, one behind the last; 0 if none does
    missing: Tensor | None = None  # (N,) int32, keys at the front that a segment does not have

    def mask(self) -> Tensor:
        """True where a query sees a key: (T, K), or (N, 1, T, K) if keys are missing."""
        key = torch.arange(len(self.first_query), device=self.first.device)
        visible = (key >= self.first[:, None]) & (key < self.stop[:, None])
        return visible if self.missing is None else visible & (key >= self.missing[:, None, None, None])


def seen_of(mask: Tensor) -> Seen:
    """What a mask (T, K) lets queries see; in each of its rows the visible keys are an interval, never empty.

    Nothing is asked of the host: a mask on a GPU is never waited for.
    """
    query, key = (torch.arange(count, device=mask.device) for count in mask.shape)
    query = query[:, None]
    interval = (
        torch.where(mask, key, len(key)).amin(1),
        torch.where(mask, key + 1, 0).amax(1),
        torch.where(mask, query, len(query)).amin(0),
        torch.where(mask, query + 1, 0).amax(0),
    )
    return Seen(*(bound.int() for bound in interval))


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
