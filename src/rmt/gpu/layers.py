"""The backbone once more, with its gradient written down: few kernels, weights cast once, nothing compiled.

Gradients of parameters do not go through autograd: they gather in `FastParameters` over all segments of an
update. Pre-norm and post-norm differ in where the residual goes on: from before a norm, or from behind it.
"""

# S seeds · B batch · C cached rows · R rows of a segment · T rows that come out of a layer · N rows, flat
# D width · H heads · E head width · F inner width

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.gpu.attention import attend, attend_gradient
from rmt.gpu.dropout import ATTENTION, FEED_FORWARD, INNER, INPUT, OUTPUT
from rmt.gpu.norms import Branch, Normed
from rmt.gpu.segment import FusedLayer, LayerGradients, LayerRecord, SegmentCall, Slots
from rmt.gpu.weight_gradients import Slot


class Entering(NamedTuple):
    """What goes into a layer, or behind the last one comes out."""

    rows: Normed  # of the segment
    slot: Slot  # their norm, as the layer projects it
    projected: Tensor | None = None  # (S, N, 3 · H · E), where a kernel has made it already


class Returning(NamedTuple):
    """What comes back to the end of a layer."""

    gradient: Tensor  # (S, N, 3 · H · E) of what the next layer projected, or behind the last (S, N, D)
    past: Tensor | None  # (S, B · T, D) of the next layer's residual, in the rows that came out of it


def encode(x: Tensor, cache: tuple[Tensor, ...], call: SegmentCall) -> tuple[Tensor, ...]:
    """The last rows (…, T, D) behind all layers; with a cache, also what goes into each of them (…, R, D)."""
    if not call.last and not cache:
        return (x[..., :0, :],)
    entering, layer_inputs = begin(x, call), []
    for layer in range(call.weights.config.layers):
        if cache:
            layer_inputs.append(call.unpadded(residual(entering.rows, call), x))
        if not call.rows_out(layer):
            return x[..., :0, :], *layer_inputs
        cached = norm_of_cache(cache[layer], layer, call) if cache else None
        record, entering = encode_layer(entering, cached, layer, call)
        if call.keeps:
            call.records.append(record)
    call.leaving = entering.rows if call.keeps else None
    hidden = entering.rows.normal if call.is_fused else dropped(entering.rows.normal, OUTPUT, call)
    return call.unpadded(hidden, x), *layer_inputs


def begin(x: Tensor, call: SegmentCall) -> Entering:
    """What goes into the first layer."""
    weights, rows = call.weights, call.flat(x)
    slot = weights.qkv.slot(0, rows.shape[1], call.waits)
    if weights.is_post:
        total = dropped(rows, INPUT, call)
        return Entering(Normed(total, slot.right.copy_(total), None), slot)
    drop = call.dropout.at(INPUT)
    return Entering(weights.operations.norm(rows, weights.norm(0), slot.right, drop), slot)


def encode_layer(
    entering: Entering, cached: Normed | None, layer: int, call: SegmentCall
) -> tuple[LayerRecord, Entering]:
    """Project, attend, and all that follows up to the next layer's projection."""
    weights, slot, projected = call.weights, entering.slot, entering.projected
    if cached is not None:
        slot = weights.qkv.slot_of(layer, call.behind_cache(cached.normal, entering.rows.normal))
    if projected is None:
        projected = slot.right @ weights.qkv[layer].mT
    rows = projected.shape[1] // (call.cache + call.rows) * call.rows_out(layer)
    out = weights.out.slot(layer, rows, call.waits)
    attention = attend(projected, out.right, layer, call)
    past = call.last_rows(residual(entering.rows, call), call.rows_out(layer))
    up, down = (matrices.slot(layer, rows, call.waits) for matrices in (weights.up, weights.down))
    ends = layer + 1 == weights.config.layers
    after = weights.qkv.slot(layer + 1, rows, call.waits and not ends)
    finish = finish_fused if call.is_fused else finish_layer
    middle, leaving = finish(past, Slots(out, up, down, after), layer, call)
    return LayerRecord(entering.rows, cached, attention, middle, slot, out, up, down), leaving


def finish_layer(past: Tensor, slots: Slots, layer: int, call: SegmentCall) -> tuple[Normed, Entering]:
    """Behind attention: its projection, the residual, the norm, the feed-forward block, the next norm."""
    weights, operations, dropout = call.weights, call.weights.operations, call.dropout
    branch = Branch(slots.out.right @ weights.out[layer].mT, None, dropout.at(ATTENTION, layer))
    middle = operations.add_norm(past, branch, weights.norm(2 * layer + 1), slots.up.right)
    inner = operations.up_relu(
        middle.normal, weights.up[layer], weights.up_bias[layer], dropout.at(INNER, layer), slots.down.right
    )
    rows = inner @ weights.down[layer].mT
    branch = Branch(rows, weights.down_bias[layer], dropout.at(FEED_FORWARD, layer))
    normal = slots.after.right
    if layer + 1 == weights.config.layers:
        normal = torch.empty_like(normal, dtype=weights.residual_dtype)
    leaving = operations.add_norm(residual(middle, call), branch, weights.norm(2 * layer + 2), normal)
    return middle, Entering(leaving, slots.after)


def finish_fused(past: Tensor, slots: Slots, layer: int, call: SegmentCall) -> tuple[Normed, Entering]:
    """The same in one kernel, and the next layer's projection with it."""
    weights = call.weights
    normal = slots.after.right
    if layer + 1 == weights.config.layers:
        normal = torch.empty_like(normal, dtype=weights.residual_dtype)
    fused = FusedLayer(weights, layer, call.dropout)
    middle, leaving, projected = weights.operations.fused_layer(past, slots, normal, fused)
    return middle, Entering(leaving, slots.after, projected)


def differentiate(gradient: Tensor, call: SegmentCall) -> Tensor:
    """From the gradient of what came out (…, T, D) to that of what went in, (…, R, D)."""
    rows = call.flat(gradient)
    returning = Returning(rows if call.is_fused else dropped(rows, OUTPUT, call), None)
    for layer in reversed(range(call.weights.config.layers)):
        returning = layer_gradient(returning, layer, call)
    return begin_gradient(returning, call)[..., : gradient.shape[-1]]


def layer_gradient(returning: Returning, layer: int, call: SegmentCall) -> Returning:
    """Back from the next layer's projection to that of this one; gradients of matrices are set aside."""
    weights, record = call.weights, call.records[layer]
    back = finish_fused_gradient if call.is_fused else finish_gradient
    gradients = back(returning, layer, call)
    weights.down.gradients.add(record.down, gradients.down)
    weights.up.gradients.add(record.up, gradients.inner)
    weights.out.gradients.add(record.out, gradients.out)
    to_projected = record.qkv.left(record.attention.projected.shape[-1])
    to_output = gradients.attended.view_as(record.attention.output)
    attend_gradient(to_output, to_projected, record.attention, layer, call)
    weights.qkv.gradients.add(record.qkv, to_projected)
    return Returning(to_projected, gradients.middle)


def finish_gradient(returning: Returning, layer: int, call: SegmentCall) -> LayerGradients:
    """The gradient of `finish_layer`."""
    weights, operations, record = call.weights, call.weights.operations, call.records[layer]
    to_total, to_down = norm_gradient(returning, layer + 1, call)
    inner, sums = record.down.right, weights.up_sums[layer]
    drop = call.dropout.at(INNER, layer)
    scale = 1.0 if drop is None else drop.scale
    to_inner = operations.relu_down_gradient(to_down, weights.down[layer], inner, sums, scale)
    to_normal = to_inner @ weights.up[layer]
    norm, drop = weights.norm(2 * layer + 1), call.dropout.at(ATTENTION, layer)
    to_middle, to_out = operations.norm_gradient(to_normal, to_total, record.middle, norm, drop)
    return LayerGradients(to_down, to_inner, to_middle, to_out, to_out @ weights.out[layer])


def finish_fused_gradient(returning: Returning, layer: int, call: SegmentCall) -> LayerGradients:
    """The gradient of `finish_fused`."""
    past = returning.past
    if past is not None:
        past = call.all_rows(past, call.rows_out(layer + 1))
    fused = FusedLayer(call.weights, layer, call.dropout)
    leaving = call.entering(layer + 1)
    gradients: LayerGradients = call.weights.operations.fused_layer_gradient(
        returning.gradient, past, leaving, call.records[layer], fused
    )
    return gradients


def norm_gradient(returning: Returning, layer: int, call: SegmentCall) -> tuple[Tensor, Tensor]:
    """Back through the norm before a layer, or behind the last: to what it saw, and to the branch in it."""
    weights, operations = call.weights, call.weights.operations
    gradient, past = to_normal(returning, layer, call)
    norm, drop = weights.norm(2 * layer), call.dropout.at(FEED_FORWARD, layer - 1)
    if not layer:  # what went in is the branch, and its gradient is for no product
        norm, drop = norm._replace(dtype=weights.residual_dtype), call.dropout.at(INPUT)
    gradients: tuple[Tensor, Tensor] = operations.norm_gradient(
        gradient, past, call.entering(layer), norm, drop
    )
    return gradients


def to_normal(returning: Returning, layer: int, call: SegmentCall) -> tuple[Tensor, Any]:
    """Back through a layer's projection, and past the layer; both (S, B · R, D)."""
    weights, (gradient, past) = call.weights, returning
    if past is None:
        return gradient, None
    gradient, cached = gradient @ weights.qkv[layer], call.records[layer].cached
    if cached is not None:
        to_cached, gradient = call.split_cache(gradient)
        if not weights.is_post:  # the cache has no gradient, but the norm that it went through
            weights.operations.norm_gradient(to_cached, None, cached, weights.cache_norm(layer), None)
    return gradient, call.all_rows(past, call.rows_out(layer))


def begin_gradient(returning: Returning, call: SegmentCall) -> Tensor:
    """The gradient of the first layer's input."""
    if not call.weights.is_post:
        return norm_gradient(returning, 0, call)[1]
    gradient, past = to_normal(returning, 0, call)
    return dropped(gradient + past, INPUT, call)


def residual(normed: Normed, call: SegmentCall) -> Tensor:
    """What the next block adds to: the rows before a norm, or post-norm's behind it."""
    return normed.normal if call.weights.is_post else normed.total


def norm_of_cache(cache: Tensor, layer: int, call: SegmentCall) -> Normed:
    """A layer's cached inputs (…, C, D) as they are projected."""
    weights, total = call.weights, call.flat(cache)
    normal = torch.empty_like(total, dtype=weights.dtype)
    if weights.is_post:
        return Normed(total, normal.copy_(total), None)
    normed: Normed = weights.operations.norm(total, weights.cache_norm(layer), normal)
    return normed


def dropped(rows: Tensor, site: int, call: SegmentCall) -> Tensor:
    """Rows (S, N, D) with dropout at a site of the backbone."""
    drop = call.dropout.at(site)
    return rows if drop is None else call.weights.operations.dropout(rows, drop)
