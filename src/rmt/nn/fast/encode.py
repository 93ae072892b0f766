"""The backbone once more, with its gradient written down: few kernels, weights cast once, nothing compiled.

Gradients of parameters do not go through autograd: they gather in `Prepared`, over all segments of an update.
"""

# S seeds · B batch · R rows of a segment · T rows that come out of a layer · N = B·R or B·T
# D width · H heads · E head width · F inner width · K keys · W distances

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.axis import Axis
from rmt.nn.fast.prepared import Prepared
from rmt.nn.fast.rowwise import (
    add_norm,
    ask,
    ask_gradient,
    attend,
    attend_gradient,
    norm_gradient,
    relu,
    relu_gradient,
    tiled,
    turn,
)
from rmt.nn.heads import KERNELS, Heads, Places
from rmt.nn.positions import shift

if KERNELS:
    from rmt.nn.fast import narrow, near


class Kept(NamedTuple):
    """What a layer keeps for its gradient."""

    x: Tensor  # (S, N, D)
    normal: Tensor  # (S, N, D) its norm
    projected: Tensor  # (S, N, 3 · H · E)
    content: Tensor  # (S · B, T, H, E) queries as they ask for contents
    position: Tensor | None  # (H, S, N, E) queries as they ask for distances
    scores: Tensor | None  # (H, S · B, T, W) of distances
    attended: Tensor  # (S · B, T, H, E)
    weight: Tensor  # (S · B, H, T) logarithms of sums
    middle: Tensor  # (S, N, D) behind attention
    second: Tensor  # (S, N, D) its norm
    inner: Tensor  # (S, N, F)


@dataclass
class Call:
    """A segment to be encoded."""

    prepared: Prepared
    axis: Axis
    last: int  # rows that come out of the last layer
    keeps: bool  # what the gradient needs
    kept: list[Any] = field(default_factory=list)  # for the gradient


class Encode(torch.autograd.Function):
    """The backbone as a function of the rows it is given: (B, R, D) -> (B, T, D), or both with S in front."""

    @staticmethod
    def forward(x: Tensor, call: Call) -> Tensor:
        with torch.cuda.device_of(x):
            return encode(x, call)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Call], output: Tensor) -> None:
        x, ctx.call = inputs
        ctx.shape = x.shape
        ctx.save_for_backward(*ctx.call.kept)
        ctx.call.kept = []

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        with torch.cuda.device_of(gradient):
            return differentiate(gradient, ctx.call, list(ctx.saved_tensors), ctx.shape), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], x: Tensor, call: Call) -> tuple[Tensor, int]:
        """All seeds at once."""
        return Encode.apply(x.movedim(in_dims[0], 0), call), 0


def encode(x: Tensor, call: Call) -> Tensor:
    prepared, axis, last = call.prepared, call.axis, call.last
    sizes, dtype = prepared.sizes, prepared.dtype
    *front, rows, width = x.shape
    batch = x[..., 0, 0].numel() // prepared.seeds
    padded = prepared.width
    total = F.pad(x, (0, padded - width)).reshape(prepared.seeds, batch * rows, padded)
    total = total.to(prepared.gains.stored.dtype)
    total, normal = add_norm(
        total, None, prepared.no_bias, prepared.gains[0], prepared.shifts[0], width, dtype
    )
    for layer in range(sizes.layers):
        out = last if layer == sizes.layers - 1 else rows
        projected = product(normal, prepared.qkv[layer])
        if not prepared.relative:
            turn(placed(projected, prepared, rows), *prepared.table(axis))
        query, key, value = heads_of(projected, prepared, rows)
        attended, *asked = look(query[:, rows - out :], key, value, prepared, layer, axis)
        x = total if out == rows else tail(total, rows, out)
        flat = attended.view(prepared.seeds, batch * out, -1)
        final = total.dtype if layer == sizes.layers - 1 else dtype
        *rest, after, normal_after = finish(flat, x, prepared, layer, final)
        if call.keeps:
            call.kept += Kept(total, normal, projected, *asked[:3], attended, asked[3], *rest)
        total, normal = after, normal_after
    call.kept += [total] * call.keeps
    return normal[..., :width].reshape(*front, last, width)


def differentiate(gradient: Tensor, call: Call, kept: list[Any], shape: torch.Size) -> Tensor:
    prepared, axis, last = call.prepared, call.axis, call.last
    sizes, dtype = prepared.sizes, prepared.dtype
    *_, rows, width = shape
    seeds, padded = prepared.seeds, prepared.width
    gradient = F.pad(gradient, (0, padded - width)).reshape(seeds, -1, padded)
    batch = gradient.shape[1] // last

    final = 2 * sizes.layers
    gain, sums = prepared.gains[final], prepared.norm_sums[final]
    above, half = norm_gradient(gradient, kept.pop(), gain, None, sums, width, dtype)
    for layer in reversed(range(sizes.layers)):
        kept, one = kept[: -len(Kept._fields)], Kept(*kept[-len(Kept._fields) :])
        out = one.attended.shape[1]
        flat = one.attended.view(seeds, batch * out, -1)
        above, half, to_flat = finish_back(above, half, flat, one, prepared, layer)
        to_projected = look_back(to_flat.view_as(one.attended), one, prepared, layer, axis, rows)
        prepared.qkv.gradients.add(layer, to_projected, one.normal)
        if out < rows:
            above = F.pad(above.view(seeds, batch, out, padded), (0, 0, rows - out, 0)).flatten(1, 2)
        gain, sums = prepared.gains[2 * layer], prepared.norm_sums[2 * layer]
        come = to_projected @ prepared.qkv[layer]
        above, half = norm_gradient(come, one.x, gain, above, sums, width, dtype)
    return above[..., :width].reshape(shape)


def finish(
    attended: Tensor, x: Tensor, prepared: Prepared, layer: int, final: torch.dtype
) -> tuple[Tensor, ...]:
    """Behind attention: the middle, its norm, the inner rows; the layer's output and the norm of that."""
    if prepared.narrow and tiled(x):
        return narrow.finish(attended, x, prepared, layer, final)
    width, number = prepared.sizes.width, 2 * layer + 1
    norm, after = ((prepared.gains[one], prepared.shifts[one]) for one in (number, number + 1))
    mixed = product(attended, prepared.out[layer])
    middle, second = add_norm(x, mixed, prepared.no_bias, *norm, width, prepared.dtype)
    inner = rectified(second, prepared.up[layer], prepared.up_bias[layer])
    found, bias = product(inner, prepared.down[layer]), prepared.down_bias[layer]
    return middle, second, inner, *add_norm(middle, found, bias, *after, width, final)


def finish_back(
    above: Tensor, half: Tensor, attended: Tensor, one: Kept, prepared: Prepared, layer: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the middle, twice, and of what attention found."""
    width, number = prepared.sizes.width, 2 * layer + 1
    prepared.down.gradients.add(layer, half, one.inner)
    if prepared.narrow and tiled(half):
        kept = (one.middle, one.inner)
        to_inner, above, half, to_attended = narrow.finish_gradient(above, half, kept, prepared, layer)
    else:
        gain, sums = prepared.gains[number], prepared.norm_sums[number]
        to_inner = relu_gradient(half @ prepared.down[layer], one.inner, prepared.up_sums[layer])
        come = to_inner @ prepared.up[layer]
        above, half = norm_gradient(come, one.middle, gain, above, sums, width, prepared.dtype)
        to_attended = half @ prepared.out[layer]
    prepared.up.gradients.add(layer, to_inner, one.second)
    prepared.out.gradients.add(layer, half, attended)
    return above, half, to_attended


def look(
    query: Tensor, key: Tensor, value: Tensor, prepared: Prepared, layer: int, axis: Axis
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor]:
    """Attention of heads (S · B, T or R, H, E): what is found, how it was asked for, and sums."""
    scale, out = prepared.sizes.head_width**-0.5, query.shape[1]
    position = scores = bias = None
    mask = axis.mask[-out:]
    if is_near(prepared, query, key, axis):
        distances = prepared.projected(axis).projected[layer]
        near_by = near.Asked(query, key, value, prepared.biases.stored, distances, mask, scale)
        found, weight = near.attend(near_by)
        return found, query, None, None, weight
    if prepared.relative:
        asked = query if out == key.shape[1] else query.contiguous()
        content, position = ask(by_seed(asked, prepared), prepared.biases.stored, scale)
        query = content.view_as(query)
        projected = prepared.projected(axis).projected[layer]
        scores = (position.flatten(0, 1) @ projected.mT).view(len(position), len(query), out, -1)
        bias = shift(scores.transpose(0, 1), key.shape[1])
    found = torch.empty_like(query, memory_format=torch.contiguous_format)
    rows = (one.transpose(1, 2) for one in (query, key, value))
    heads = Heads(*rows, bias, mask[None], scale, prepared.bounds(mask))
    return found, query, position, scores, attend(heads, found.transpose(1, 2))


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
    found = torch.empty_like(one.projected)
    to_query, to_key, to_value = heads_of(found, prepared, rows)
    mask = axis.mask[-out:]
    if prepared.relative and one.scores is None:
        query, key, value = heads_of(one.projected, prepared, rows)
        distances, sums = prepared.projected(axis), prepared.near_sums(len(query))[layer]
        known = (prepared.biases.stored, distances.projected[layer])
        near_by = near.Asked(query[:, rows - out :], key, value, *known, mask, scale)
        places = (to_query[:, rows - out :], to_key, to_value)
        factors = near.attend_gradient(near_by, to_attended, one.weight, places, sums)
        distances.gradients.add(layer, *factors)
        to_query[:, : rows - out] = 0
        return found
    to_asked = to_query if out == rows else torch.empty_like(one.content)
    _, key, value = heads_of(one.projected, prepared, rows)
    bias = to_bias = to_scores = None
    if one.scores is not None:
        to_scores = torch.zeros_like(one.scores)
        bias, to_bias = (shift(scores.transpose(0, 1), rows) for scores in (one.scores, to_scores))
    parts = (part.transpose(1, 2) for part in (one.content, key, value))
    heads = Heads(*parts, bias, mask[None], scale, prepared.bounds(mask))
    gradients = Places(*(part.transpose(1, 2) for part in (to_asked, to_key, to_value)), to_bias)
    attended = one.attended.transpose(1, 2)
    attend_gradient(heads, to_attended.transpose(1, 2), attended, one.weight, gradients)
    if to_scores is not None:
        distances = prepared.projected(axis)
        position: Any = one.position
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


def tail(x: Tensor, rows: int, out: int) -> Tensor:
    """The last rows of every segment: (S, B · R, D) -> (S, B · T, D)."""
    return x.unflatten(1, (-1, rows))[:, :, rows - out :].flatten(1, 2)


def product(x: Tensor, matrix: Tensor) -> Tensor:
    """x matrixᵀ for every seed."""
    return x @ matrix.mT


def rectified(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """max(0, x matrixᵀ + bias) for every seed."""
    if len(x) == 1 and tiled(x):
        return torch._addmm_activation(bias[0], x[0], matrix[0].mT).unsqueeze(0)
    return relu(product(x, matrix), bias)
