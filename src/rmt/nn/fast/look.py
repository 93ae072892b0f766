"""Attention of the fast backbone: heads ask, find, and hand gradients back."""

# S seeds · B batch · R rows of a segment · T rows that ask · N = B·R or B·T
# D width · H heads · E head width · F inner width · K keys · W distances

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.nn.axis import Axis
from rmt.nn.fast.prepared import Prepared
from rmt.nn.fast.rowwise import (
    ask,
    ask_gradient,
    attend,
    attend_gradient,
    shifted,
    shifted_back,
    tiled,
    turn,
)
from rmt.nn.heads import KERNELS, Heads, Places

if KERNELS:
    from rmt.nn.fast import near


class Kept(NamedTuple):
    """What a layer keeps for its gradient."""

    x: Tensor  # (S, N, D)
    moments: Tensor | None  # (2, S, N) of x
    normal: Tensor  # (S, N, D) its norm
    projected: Tensor  # (S, N, 3 · H · E)
    content: Tensor  # (S · B, T, H, E) queries as they ask for contents
    position: Tensor | None  # (H, S, N, E) queries as they ask for distances
    bias: Tensor | None  # (H, S · B, T, K filled up) scores of distances, where their keys are
    attended: Tensor  # (S · B, T, H, E)
    weight: Tensor  # (S · B, H, T) logarithms of sums
    middle: Tensor  # (S, N, D) behind attention
    middle_moments: Tensor | None  # (2, S, N)
    second: Tensor  # (S, N, D) its norm
    inner: Tensor  # (S, N, F)


def look(
    projected: Tensor, rows: int, out: int, prepared: Prepared, layer: int, axis: Axis, keeps: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor]:
    """Attention of the last `out` rows of segments: what is found, how it was asked for, and sums.

    Rotary positions turn what is projected, in place.
    """
    if not prepared.relative:
        turn(placed(projected, prepared, rows), *prepared.table(axis))
    query, key, value = heads_of(projected, prepared, rows)
    query, scale = query[:, rows - out :], prepared.sizes.head_width**-0.5
    many, waits = query[..., 0, 0].numel() // prepared.seeds, keeps and prepared.at_once(query)
    found = prepared.out.room(layer, many, waits).view(query.shape)
    position = bias = None
    mask = axis.mask[-out:]
    if is_near(prepared, query, key, axis):
        known = (prepared.biases.stored, prepared.projected(axis).projected[layer])
        near_by = near.Asked(query, key, value, *known, prepared.bounds(mask).limits, scale)
        return found, query, None, None, near.attend(near_by, found)
    if prepared.relative:
        asked = query if out == key.shape[1] else query.contiguous()
        content, position = ask(by_seed(asked, prepared), prepared.biases.stored, scale)
        query = content.view_as(query)
        projected = prepared.projected(axis).projected[layer]
        scores = (position.flatten(0, 1) @ projected.mT).view(len(position), len(query), out, -1)
        bias = shifted(scores, key.shape[1], prepared.bounds(mask))
    parts = (one.transpose(1, 2) for one in (query, key, value))
    heads = Heads(*parts, by_batch(bias), mask[None], scale, prepared.bounds(mask))
    return found, query, position, bias, attend(heads, found.transpose(1, 2))


def is_near(prepared: Prepared, query: Tensor, key: Tensor, axis: Axis) -> bool:
    """Whether a program can take a head's queries and keys at once, distances and all."""
    if not (prepared.relative and tiled(query)):
        return False
    return near.fits(key.shape[1], prepared.projected(axis).rows.shape[0], prepared.head)


def look_back(
    to_attended: Tensor, one: Kept, prepared: Prepared, layer: int, axis: Axis, rows: int
) -> Tensor:
    """The gradient of the projected rows (S, N, 3 · H · E)."""
    scale, out = prepared.sizes.head_width**-0.5, one.attended.shape[1]
    found = prepared.qkv.gradients.beside(layer, one.normal)
    to_query, to_key, to_value = heads_of(found, prepared, rows)
    mask = axis.mask[-out:]
    if prepared.relative and one.bias is None:
        query, key, value = heads_of(one.projected, prepared, rows)
        distances, sums = prepared.projected(axis), prepared.near_sums(len(query))[layer]
        known = (prepared.biases.stored, distances.projected[layer], prepared.bounds(mask).limits)
        near_by = near.Asked(query[:, rows - out :], key, value, *known, scale)
        places = (to_query[:, rows - out :], to_key, to_value)
        factors = near.attend_gradient(near_by, to_attended, one.weight, places, sums)
        distances.gradients.add(layer, *factors)
        to_query[:, : rows - out] = 0
        return found
    to_asked = to_query if out == rows else torch.empty_like(one.content)
    _, key, value = heads_of(one.projected, prepared, rows)
    to_bias = None if one.bias is None else torch.empty_like(one.bias)
    parts = (part.transpose(1, 2) for part in (one.content, key, value))
    bounds = prepared.bounds(mask)
    heads = Heads(*parts, by_batch(one.bias), mask[None], scale, bounds)
    parts = (part.transpose(1, 2) for part in (to_asked, to_key, to_value))
    gradients = Places(*parts, by_batch(to_bias))
    attended = one.attended.transpose(1, 2)
    attend_gradient(heads, to_attended.transpose(1, 2), attended, one.weight, gradients)
    if to_bias is not None:
        distances = prepared.projected(axis)
        position: Any = one.position
        to_scores = shifted_back(to_bias, distances.projected.shape[2], rows, bounds)
        to_scores = to_scores.view(len(position) * prepared.seeds, -1, to_scores.shape[-1])
        distances.gradients.add(layer, to_scores, position.flatten(0, 1))
        to_position = (to_scores @ distances.projected[layer]).view_as(position)
        ask_gradient(by_seed(to_asked, prepared), to_position, prepared.bias_sums[layer], scale)
    if out < rows:
        to_query[:, : rows - out] = 0
        to_query[:, rows - out :] = to_asked
    if not prepared.relative:
        turn(placed(found, prepared, rows), *prepared.table(axis), back=True)
    return found


def heads_of(projected: Tensor, prepared: Prepared, rows: int) -> tuple[Tensor, ...]:
    """(S, N, 3 · H · E) -> queries, keys and values (S · B, R, H, E), views."""
    return projected.view(-1, rows, 3, prepared.sizes.heads, prepared.head).unbind(2)


def placed(projected: Tensor, prepared: Prepared, rows: int) -> Tensor:
    """Queries and keys side by side, (S · B, R, 2 · H, E), a view."""
    heads = prepared.sizes.heads
    return projected.view(-1, rows, 3 * heads, prepared.head)[:, :, : 2 * heads]


def by_seed(heads: Tensor, prepared: Prepared) -> Tensor:
    """(S · B, T, H, E) -> (S, N, H, E), a view."""
    return heads.view(prepared.seeds, -1, *heads.shape[2:])


def by_batch(bias: Tensor | None) -> Tensor | None:
    """(H, S · B, T, K) -> (S · B, H, T, K), a view."""
    return None if bias is None else bias.transpose(0, 1)
