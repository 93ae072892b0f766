"""Attention with relative positions, for segments so short that a program takes a whole head at once.

What `rmt.nn.fast.look` writes as a product for distances, a shift and attention, in one kernel each way.
"""

# S seeds · B batch · T queries · R keys · H heads · E head width · W distances

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from rmt.nn.fast import near_tiles

LONGEST = 64  # rows of a tile, if a head is as wide


def tile(keys: int, columns: int, width: int) -> dict[str, int]:
    """The sizes of a tile that has all keys and all distances."""
    rows = max(16, triton.next_power_of_2(max(keys, triton.cdiv(columns, 2))))
    sizes = {"BR": rows, "BW": 2 * rows, "BE": max(16, triton.next_power_of_2(width))}
    return {**sizes, "num_warps": 4 if rows == LONGEST else 2}


def fits(keys: int, columns: int, width: int) -> bool:
    sizes = tile(keys, columns, width)
    return sizes["BR"] * sizes["BE"] <= LONGEST**2


class Asked(NamedTuple):
    """Queries and what they look at; queries, keys and values lie in one tensor."""

    query: Tensor  # (S · B, T, H, E)
    key: Tensor  # (S · B, R, H, E)
    value: Tensor  # (S · B, R, H, E)
    biases: Tensor  # (2, S, H, E) content's and position's
    distances: Tensor  # (H · S, W, E) projected
    limits: Tensor  # (T,) how many keys a query sees, from the first
    scale: float

    @property
    def places(self) -> tuple[int, ...]:
        """Steps from batch to batch, from row to row, from head to head."""
        return self.query.stride()[:3]

    @property
    def counts(self) -> tuple[Any, ...]:
        """Heads, segments of a seed, seeds, queries, keys, distances, head width, scale."""
        batch, length, heads, width = self.query.shape
        seeds, keys, columns = self.biases.shape[1], self.key.shape[1], self.distances.shape[1]
        return heads, batch // seeds, seeds, length, keys, columns, width, self.scale

    @property
    def tile(self) -> dict[str, int]:
        return tile(self.key.shape[1], self.distances.shape[1], self.query.shape[-1])


def attend(asked: Asked, found: Tensor) -> Tensor:
    """Write what is found, (S · B, T, H, E); the logarithms of sums (S · B, H, T)."""
    query = asked.query
    weight = query.new_empty(len(query), query.shape[2], query.shape[1], dtype=torch.float32)
    near_tiles.near_kernel[(weight.shape[:2].numel(),)](
        *asked[:6], found, weight,
        *asked.places, *found.stride()[:2], *asked.counts, **asked.tile,
    )  # fmt: skip
    return weight


def attend_gradient(
    asked: Asked, gradient: Tensor, weight: Tensor, places: tuple[Tensor, Tensor, Tensor], sums: Tensor
) -> tuple[Tensor, Tensor]:
    """Write the gradients of queries, keys and values, and add those of the biases to `sums` (S, B, 2, H, E).

    Returns the two factors of the distances' gradient, (H · S, B · T, W) and (H · S, B · T, E).
    """
    query, (groups, columns, width) = asked.query, asked.distances.shape
    batch, length, heads, _ = query.shape
    to_scores = query.new_empty(heads, batch, length, columns)
    asking = query.new_empty(heads, batch, length, width)
    near_tiles.near_gradient_kernel[(batch * heads,)](
        *asked[:6], weight, gradient, *places, to_scores, asking, sums,
        *asked.places, *gradient.stride()[:2], *asked.counts, **asked.tile,
    )  # fmt: skip
    return to_scores.view(groups, -1, columns), asking.view(groups, -1, width)
