"""The backbone once more, with its gradient written down: few kernels, weights cast once, nothing compiled.

Gradients of parameters do not go through autograd: they gather in `Prepared`, over all segments of an update.
"""

# S seeds · B batch · R rows of a segment · T rows that come out of a layer · N = B·R or B·T
# D width · H heads · E head width · F inner width

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.axis import Axis
from rmt.nn.fast.look import Kept, by_seed, look, look_back
from rmt.nn.fast.prepared import Prepared
from rmt.nn.fast.products import added, product, rectified, rectified_back
from rmt.nn.fast.rowwise import norm, norm_gradient
from rmt.nn.heads import KERNELS

if KERNELS:
    from rmt.nn.fast import narrow


class Finished(NamedTuple):
    """What a layer makes of what attention found."""

    middle: Tensor  # (S, N, D) with attention's residual
    middle_moments: Tensor | None
    second: Tensor  # (S, N, D) its norm
    inner: Tensor  # (S, N, F)
    total: Tensor  # (S, N, D) the layer's output
    moments: Tensor | None
    normal: Tensor  # (S, N, D) its norm
    carried: Tensor  # (S, N, D) what the next layer adds to
    projected: Tensor | None  # (S, N, 3 · H · E) from the norm, for the next layer, if it is made here


class Back(NamedTuple):
    """Gradients that are to go back through a layer norm."""

    come: Tensor  # (S, N, 3 · H · E) of what is projected from the norm, or (S, N, D) of the final norm
    x: Tensor  # (S, N, D) what the norm was taken of
    moments: Tensor | None  # (2, S, N) of x
    above: Tensor | None  # (S, B, T, D) of the last rows of x, past the layer


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
    *front, rows, width = x.shape
    total = filled(x, prepared.width).reshape(prepared.seeds, -1, prepared.width).to(prepared.stream)
    at_once = prepared.at_once(total)  # that does not add in place
    place = prepared.qkv.room(0, total.shape[1], call.keeps) if at_once else None
    first = norm(total, *prepared.norm(0), width, prepared.dtype, apart=not at_once, place=place)
    normal, carried, moments = first
    projected = None
    for layer in range(prepared.sizes.layers):
        out = last if layer == prepared.sizes.layers - 1 else rows
        if projected is None:
            projected = product(normal, prepared.qkv[layer])
        attended, *asked, weight = look(projected, rows, out, prepared, layer, axis, call.keeps)
        end = finish(attended, carried, prepared, layer, call.keeps)
        if call.keeps:
            call.kept += Kept(total, moments, normal, projected, *asked, attended, weight, *end[:4])
        *_, total, moments, normal, carried, projected = end
    call.kept += [total, moments] * call.keeps
    return normal[..., :width].reshape(*front, last, width)


def differentiate(gradient: Tensor, call: Call, kept: list[Any], shape: torch.Size) -> Tensor:
    prepared, axis = call.prepared, call.axis
    *_, rows, width = shape
    come = filled(gradient, prepared.width).reshape(prepared.seeds, -1, prepared.width)
    *kept, total, moments = kept
    back = Back(come, total, moments, None)
    for layer in reversed(range(prepared.sizes.layers)):
        kept, one = kept[: -len(Kept._fields)], Kept(*kept[-len(Kept._fields) :])
        above, to_attended = finish_back(back, one, prepared, layer)
        to_projected = look_back(to_attended.view_as(one.attended), one, prepared, layer, axis, rows)
        prepared.qkv.gradients.add(layer, to_projected, one.normal)
        back = Back(to_projected, one.x, one.moments, above.unflatten(1, (-1, one.attended.shape[1])))
    return begin_back(back, prepared)[..., :width].reshape(shape).to(gradient.dtype)


def finish(attended: Tensor, carried: Tensor, prepared: Prepared, layer: int, keeps: bool) -> Finished:
    """Behind attention.

    Residuals are carried from norm to norm: each block adds to them in place, and where the gradient needs
    what a norm was taken of, it goes on with a copy.
    """
    width, dtype, number = prepared.sizes.width, prepared.dtype, 2 * layer + 1
    ends = layer == prepared.sizes.layers - 1
    final = prepared.stream if ends else dtype
    if prepared.at_once(carried):
        return Finished(*narrow.finish(attended, carried, prepared, layer, final, keeps))
    mixed, bias = by_seed(attended, prepared).flatten(2), prepared.down_bias[layer]
    middle = added(tail(carried, attended), mixed, prepared.out[layer])
    second, carried, found = norm(middle, *prepared.norm(number), width, dtype, bias, apart=keeps)
    inner = rectified(second, prepared.up[layer], prepared.up_bias[layer])
    total = added(carried, inner, prepared.down[layer])
    after = norm(total, *prepared.norm(number + 1), width, final, apart=keeps and not ends)
    return Finished(middle, found, second, inner, total, after.moments, after.rows, after.carried, None)


def finish_back(back: Back, one: Kept, prepared: Prepared, layer: int) -> tuple[Tensor, Tensor]:
    """The gradient of the middle, and of what attention found."""
    width, number = prepared.sizes.width, 2 * layer + 1
    if prepared.at_once(back.x):
        found = narrow.finish_gradient(back, one, prepared, layer)
        half, to_inner, above, to_mixed, to_attended = found
    else:
        gain, sums = prepared.gains[number], prepared.norm_sums[number]
        above, half = norm_back(back, prepared, layer + 1)
        to_inner = rectified_back(half, prepared.down[layer], one.inner, prepared.up_sums[layer])
        come = to_inner @ prepared.up[layer]
        of: Any = (one.middle, one.middle_moments)
        above, to_mixed = norm_gradient(come, *of, gain, above, sums, width, prepared.dtype)
        to_attended = to_mixed @ prepared.out[layer]
    prepared.down.gradients.add(layer, half, one.inner)
    prepared.up.gradients.add(layer, to_inner, one.second)
    prepared.out.gradients.add(layer, to_mixed, by_seed(one.attended, prepared).flatten(2))
    return above, to_attended


def begin_back(back: Back, prepared: Prepared) -> Tensor:
    """The gradient of the first layer's input."""
    if prepared.at_once(back.x):
        return narrow.begin_gradient(back, prepared)
    return norm_back(back, prepared, 0)[0]


def norm_back(back: Back, prepared: Prepared, layer: int) -> tuple[Tensor, Tensor]:
    """The gradient of a layer's input, or behind the last layer of its output; and that for products."""
    come, x, moments, above = back
    if layer < prepared.sizes.layers:
        come = come @ prepared.qkv[layer]
    if above is not None:
        missing = x.shape[1] // above.shape[1] - above.shape[2]
        above = (F.pad(above, (0, 0, missing, 0)) if missing else above).flatten(1, 2)
    gain, sums = prepared.gains[2 * layer], prepared.norm_sums[2 * layer]
    of: Any = (x, moments)
    return norm_gradient(come, *of, gain, above, sums, prepared.sizes.width, prepared.dtype)


def filled(x: Tensor, width: int) -> Tensor:
    """Rows filled up with zeros, one after the other."""
    return x.contiguous() if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def tail(x: Tensor, attended: Tensor) -> Tensor:
    """The last rows of every segment, as many as attention gave: (S, B · R, D) -> (S, B · T, D)."""
    segments, out = attended.shape[:2]
    return x.view(segments, -1, x.shape[-1])[:, -out:].reshape(len(x), -1, x.shape[-1])
