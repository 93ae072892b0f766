"""Attention with relative positions, for segments so short that a program takes a whole head at once.

What `rmt.nn.fast.encode` writes as a product for distances, a shift and attention, in one kernel each way.
"""

# S seeds · B batch · T queries · R keys · H heads · E head width · W distances

from __future__ import annotations

from typing import Any

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


def attend(
    query: Tensor, key: Tensor, value: Tensor, biases: Tensor, distances: Tensor, mask: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """What queries (S · B, T, H, E) find among keys and values (S · B, R, H, E), and logarithms of sums.

    `biases` (2, S, H, E) are content's and position's, `distances` (H · S, W, E) are projected, `mask` is
    (T, R). Queries, keys and values lie in one tensor.
    """
    found = query.new_empty(query.shape)
    weight = query.new_empty(len(query), query.shape[2], query.shape[1], dtype=torch.float32)
    near_tiles.near_kernel[(weight.shape[:2].numel(),)](
        query, key, value, biases, distances, mask, found, weight,
        *places(query), *found.stride()[:2], mask.stride(0), *counts(query, key, biases, distances), scale,
        **tile(key.shape[1], distances.shape[1], query.shape[-1]),
    )  # fmt: skip
    return found, weight


def attend_gradient(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    biases: Tensor,
    distances: Tensor,
    mask: Tensor,
    weight: Tensor,
    scale: float,
    to_query: Tensor,
    to_key: Tensor,
    to_value: Tensor,
    sums: Tensor,
) -> tuple[Tensor, Tensor]:
    """Write the gradients of queries, keys and values, and add those of the biases to `sums` (S, B, 2, H, E).

    Returns the two factors of the distances' gradient, (H · S, B · T, W) and (H · S, B · T, E).
    """
    batch, length, heads, width = query.shape
    to_scores = query.new_empty(heads, batch, length, distances.shape[1])
    asking = query.new_empty(heads, batch, length, width)
    near_tiles.near_gradient_kernel[(batch * heads,)](
        query, key, value, biases, distances, mask, weight, gradient,
        to_query, to_key, to_value, to_scores, asking, sums,
        *places(query), *gradient.stride()[:2], mask.stride(0), *counts(query, key, biases, distances), scale,
        **tile(key.shape[1], distances.shape[1], width),
    )  # fmt: skip
    groups = len(distances)
    return to_scores.view(groups, -1, distances.shape[1]), asking.view(groups, -1, width)


def places(query: Tensor) -> tuple[int, int, int]:
    """Steps from batch to batch, from row to row, from head to head."""
    batch, row, head, _ = query.stride()
    return batch, row, head


def counts(query: Tensor, key: Tensor, biases: Tensor, distances: Tensor) -> tuple[Any, ...]:
    """Heads, segments of a seed, seeds, queries, keys, distances, head width."""
    batch, length, heads, width = query.shape
    seeds = biases.shape[1]
    return heads, batch // seeds, seeds, length, key.shape[1], distances.shape[1], width
