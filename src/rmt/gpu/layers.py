"""The layers of a backbone, forward and backward: `encode` a segment, `differentiate` it.

Gradients of parameters do not go through autograd: they gather in `FastParameters` over all segments of an
update. Pre-norm and post-norm differ in where the residual goes on: from before a norm, or from behind it.
What is called `to_x` is the gradient of x.
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


class LayerInput(NamedTuple):
    """What goes into a layer, or behind the last one comes out."""

    normed: Normed  # the segment's rows, before and behind the norm in front of the layer
    slot: Slot  # their norm, as the layer projects it
    projected: Tensor | None = None  # (S, N, 3 · H · E), where a kernel has made it already


class OutputGradient(NamedTuple):
    """What comes back to the end of a layer."""

    gradient: Tensor  # (S, N, 3 · H · E) of what the next layer projected, or behind the last (S, N, D)
    to_residual: Tensor | None  # (S, B · T, D) of the next layer's residual, in the rows that came out of it


def encode(x: Tensor, cache: tuple[Tensor, ...], call: SegmentCall) -> tuple[Tensor, ...]:
    """The last rows (…, T, D) behind all layers; with a cache, also what goes into each of them (…, R, D)."""
    if not call.last and not cache:
        return (x[..., :0, :],)
    layer_input, inputs = first_input(x, call), []
    for layer in range(call.weights.config.layers):
        if cache:
            inputs.append(call.unpadded(residual_of(layer_input.normed, call), x))
        if not call.rows_out(layer):
            return x[..., :0, :], *inputs
        cached = norm_of_cache(cache[layer], layer, call) if cache else None
        record, layer_input = encode_layer(layer_input, cached, layer, call)
        if call.keeps:
            call.records.append(record)
    output = layer_input.normed
    call.output = output if call.keeps else None
    hidden = output.normal if call.is_fused else dropped(output.normal, OUTPUT, call)
    return call.unpadded(hidden, x), *inputs


def first_input(x: Tensor, call: SegmentCall) -> LayerInput:
    """What goes into the first layer."""
    weights, rows = call.weights, call.flat(x)
    slot = weights.qkv.slot(0, rows.shape[1], call.waits)
    if weights.is_post:
        total = dropped(rows, INPUT, call)
        return LayerInput(Normed(total, slot.right.copy_(total), None), slot)
    drop = call.dropout.at(INPUT)
    return LayerInput(weights.operations.norm(rows, weights.norm(0), slot.right, drop), slot)


def encode_layer(
    layer_input: LayerInput, cached: Normed | None, layer: int, call: SegmentCall
) -> tuple[LayerRecord, LayerInput]:
    """Project, attend, and all that follows up to the next layer's projection."""
    weights, (normed, slot, projected) = call.weights, layer_input
    if cached is not None:
        slot = weights.qkv.slot_of(layer, call.behind_cache(cached.normal, normed.normal))
    if projected is None:
        projected = slot.right @ weights.qkv[layer].mT
    rows = projected.shape[1] // (call.cache + call.rows) * call.rows_out(layer)
    out = weights.out.slot(layer, rows, call.waits)
    attention = attend(projected, out.right, layer, call)
    residual = call.last_rows(residual_of(normed, call), call.rows_out(layer))
    up, down = (matrices.slot(layer, rows, call.waits) for matrices in (weights.up, weights.down))
    next_qkv = weights.qkv.slot(layer + 1, rows, call.waits and not call.is_last(layer))
    finish = finish_fused if call.is_fused else finish_layer
    middle, output = finish(residual, Slots(out, up, down, next_qkv), layer, call)
    return LayerRecord(normed, cached, attention, middle, slot, out, up, down), output


def finish_layer(residual: Tensor, slots: Slots, layer: int, call: SegmentCall) -> tuple[Normed, LayerInput]:
    """Behind attention: its projection, the residual, the norm, the feed-forward block, the next norm."""
    weights, operations, dropout = call.weights, call.weights.operations, call.dropout
    branch = Branch(slots.out.right @ weights.out[layer].mT, None, dropout.at(ATTENTION, layer))
    middle = operations.add_norm(residual, branch, weights.norm(2 * layer + 1), slots.up.right)
    inner = operations.up_relu(
        middle.normal, weights.up[layer], weights.up_bias[layer], dropout.at(INNER, layer), slots.down.right
    )
    rows = inner @ weights.down[layer].mT
    branch = Branch(rows, weights.down_bias[layer], dropout.at(FEED_FORWARD, layer))
    normal, norm = next_normal(slots, layer, call), weights.norm(2 * layer + 2)
    output = operations.add_norm(residual_of(middle, call), branch, norm, normal)
    return middle, LayerInput(output, slots.next_qkv)


def finish_fused(residual: Tensor, slots: Slots, layer: int, call: SegmentCall) -> tuple[Normed, LayerInput]:
    """The same in one kernel, and the next layer's projection with it."""
    weights, normal = call.weights, next_normal(slots, layer, call)
    fused = FusedLayer(weights, layer, call.dropout)
    middle, output, projected = weights.operations.fused_layer(residual, slots, normal, fused)
    return middle, LayerInput(output, slots.next_qkv, projected)


def next_normal(slots: Slots, layer: int, call: SegmentCall) -> Tensor:
    """Where the norm behind a layer is written: the next projection multiplies it, or it comes out."""
    normal = slots.next_qkv.right
    return torch.empty_like(normal, dtype=call.weights.residual_dtype) if call.is_last(layer) else normal


def differentiate(gradient: Tensor, call: SegmentCall) -> Tensor:
    """From the gradient of what came out (…, T, D) to that of what went in, (…, R, D)."""
    rows = call.flat(gradient)
    incoming = OutputGradient(rows if call.is_fused else dropped(rows, OUTPUT, call), None)
    for layer in reversed(range(call.weights.config.layers)):
        incoming = layer_gradient(incoming, layer, call)
    return first_input_gradient(incoming, call)[..., : gradient.shape[-1]]


def layer_gradient(incoming: OutputGradient, layer: int, call: SegmentCall) -> OutputGradient:
    """Back from the next layer's projection to that of this one; factors of matrices' gradients are added."""
    weights, record = call.weights, call.records[layer]
    back = finish_fused_gradient if call.is_fused else finish_gradient
    gradients = back(incoming, layer, call)
    weights.down.gradients.add(record.down, gradients.down)
    weights.up.gradients.add(record.up, gradients.inner)
    weights.out.gradients.add(record.out, gradients.out)
    to_projected = record.qkv.left(record.attention.projected.shape[-1])
    to_output = gradients.attended.view_as(record.attention.output)
    attend_gradient(to_output, to_projected, record.attention, layer, call)
    weights.qkv.gradients.add(record.qkv, to_projected)
    return OutputGradient(to_projected, gradients.middle)


def finish_gradient(incoming: OutputGradient, layer: int, call: SegmentCall) -> LayerGradients:
    """The gradient of `finish_layer`."""
    weights, operations, record = call.weights, call.weights.operations, call.records[layer]
    to_total, to_down = norm_gradient(incoming, layer + 1, call)
    inner, sums = record.down.right, weights.up_sums[layer]
    drop = call.dropout.at(INNER, layer)
    scale = 1.0 if drop is None else drop.scale
    to_inner = operations.relu_down_gradient(to_down, weights.down[layer], inner, sums, scale)
    to_normal = to_inner @ weights.up[layer]
    norm, drop = weights.norm(2 * layer + 1), call.dropout.at(ATTENTION, layer)
    to_middle, to_out = operations.norm_gradient(to_normal, to_total, record.middle, norm, drop)
    return LayerGradients(to_down, to_inner, to_middle, to_out, to_out @ weights.out[layer])


def finish_fused_gradient(incoming: OutputGradient, layer: int, call: SegmentCall) -> LayerGradients:
    """The gradient of `finish_fused`."""
    to_residual = incoming.to_residual
    if to_residual is not None:
        to_residual = call.all_rows(to_residual, call.rows_out(layer + 1))
    fused = FusedLayer(call.weights, layer, call.dropout)
    output, record = call.normed_input(layer + 1), call.records[layer]
    gradients: LayerGradients = call.weights.operations.fused_layer_gradient(
        incoming.gradient, to_residual, output, record, fused
    )
    return gradients


def norm_gradient(incoming: OutputGradient, layer: int, call: SegmentCall) -> tuple[Tensor, Tensor]:
    """Back through the norm before a layer, or behind the last: to what it saw, and to the branch in it."""
    weights, operations = call.weights, call.weights.operations
    to_normal, to_residual = projection_gradient(incoming, layer, call)
    norm, drop = weights.norm(2 * layer), call.dropout.at(FEED_FORWARD, layer - 1)
    if not layer:  # what went in is the branch, and its gradient is for no product
        norm, drop = norm._replace(dtype=weights.residual_dtype), call.dropout.at(INPUT)
    gradients: tuple[Tensor, Tensor] = operations.norm_gradient(
        to_normal, to_residual, call.normed_input(layer), norm, drop
    )
    return gradients


def projection_gradient(incoming: OutputGradient, layer: int, call: SegmentCall) -> tuple[Tensor, Any]:
    """Back through a layer's projection, behind a cache as (S, B, R, D), and what goes past the layer."""
    weights, (gradient, to_residual) = call.weights, incoming
    if to_residual is None:
        return gradient, None
    gradient, cached = gradient @ weights.qkv[layer], call.records[layer].cached
    if cached is not None:
        to_cached, gradient = call.split_cache(gradient)
        if not weights.is_post:  # the cache has no gradient, but the norm that it went through
            weights.operations.norm_gradient(to_cached, None, cached, weights.cache_norm(layer), None)
    return gradient, call.all_rows(to_residual, call.rows_out(layer))


def first_input_gradient(incoming: OutputGradient, call: SegmentCall) -> Tensor:
    """The gradient of what went into the first layer."""
    if not call.weights.is_post:
        return norm_gradient(incoming, 0, call)[1]
    gradient, to_residual = projection_gradient(incoming, 0, call)
    return dropped(gradient.flatten(1, -2) + to_residual, INPUT, call)


def residual_of(normed: Normed, call: SegmentCall) -> Tensor:
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
