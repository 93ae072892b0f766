"""Attention of the fast layers, forward and backward: projected rows are heads that attend to each other.

It runs in one of three ways. Rotary positions rotate queries and keys. Relative ones are `short_attention`
where a segment fits; else a product scores distances, which `aligned` makes the bias of `attention`.
"""

# S seeds · B batch · C cached rows · R rows of a segment · T rows that attend · K = C+R keys · N = B·K or B·T
# H heads · E head width · W distances

from __future__ import annotations

import torch
from torch import Tensor

from rmt.gpu.heads import HeadGradients, Heads, RelativeGradients, RelativeHeads
from rmt.gpu.segment import AttentionRecord, SegmentCall


def attend(projected: Tensor, output: Tensor, layer: int, call: SegmentCall) -> AttentionRecord:
    """The last rows of [cache ∘ segment] attend to all of it; `output` (S, N, H · E) is written.

    Rotary positions rotate what is projected, in place.
    """
    weights, operations = call.weights, call.weights.operations
    if not weights.is_relative:
        operations.rotate(queries_and_keys(projected, call), *weights.tables.rotations(call.axis))
    query, key, value = split_heads(projected, call)
    query, seen = query[:, -call.rows_out(layer) :], call.seen(call.rows_out(layer))
    heads, output = Heads(query, key, value, None, seen, scale_of(call)), output.view(query.shape)
    if not weights.is_relative:
        return AttentionRecord(projected, query, None, None, output, operations.attention(heads, output))
    distances = weights.distances.of_segment(call.axis, call.dropout).projected[layer]
    relative = RelativeHeads(heads, weights.biases.stored, distances)
    if operations.fits_short_attention(relative):
        lse = operations.short_attention(relative, output)
        return AttentionRecord(projected, query, None, None, output, lse)
    content, position = operations.biased_queries(query, weights.biases.stored, heads.scale)
    scores = position.view(len(distances), -1, position.shape[-1]) @ distances.mT  # (H · S, B · T, W)
    bias = operations.aligned(scores.view(*position.shape[:3], -1), seen).transpose(0, 1)
    lse = operations.attention(heads._replace(query=content, bias=bias), output)
    return AttentionRecord(projected, content, position, bias, output, lse)


def attend_gradient(
    to_output: Tensor, to_projected: Tensor, record: AttentionRecord, layer: int, call: SegmentCall
) -> None:
    """Write the gradient of the projected rows (S, N, 3 · H · E); `to_output` is (S · B, T, H, E)."""
    weights, operations, rows_out = call.weights, call.weights.operations, call.rows_out(layer)
    _, key, value = split_heads(record.projected, call)
    to_query, to_key, to_value = split_heads(to_projected, call)
    if rows_out < to_query.shape[1]:
        to_query[:, :-rows_out] = 0  # rows that did not attend
    to_query = to_query[:, -rows_out:]
    heads = Heads(record.query, key, value, record.bias, call.seen(rows_out), scale_of(call))
    if weights.is_relative and record.bias is None:  # it was short
        distances = weights.distances.of_segment(call.axis, call.dropout)
        relative = RelativeHeads(heads, weights.biases.stored, distances.projected[layer])
        sums = weights.short_bias_sums(len(key))[layer]
        gradients = RelativeGradients(to_query, to_key, to_value, sums)
        factors = operations.short_attention_gradient(relative, to_output, record.lse, gradients)
        distances.add(layer, *factors)
        return
    to_bias = None if record.bias is None else torch.empty_like(record.bias)
    head_gradients = HeadGradients(to_query, to_key, to_value, to_bias)
    operations.attention_gradient(heads, to_output, record.output, record.lse, head_gradients)
    if to_bias is not None:
        distances_gradient(to_query, to_bias, record, layer, call)
    if not weights.is_relative:
        rotations = weights.tables.rotations(call.axis)
        operations.rotate(queries_and_keys(to_projected, call), *rotations, backward=True)


def distances_gradient(
    to_query: Tensor, to_bias: Tensor, record: AttentionRecord, layer: int, call: SegmentCall
) -> None:
    """From the gradient of aligned scores to those of distances, position biases and, added, queries."""
    weights, operations, position = call.weights, call.weights.operations, record.position
    assert position is not None
    distances = weights.distances.of_segment(call.axis, call.dropout)
    _, groups, columns, width = distances.projected.shape
    to_scores = operations.aligned_gradient(to_bias.transpose(0, 1), columns, call.seen(to_query.shape[1]))
    to_scores = to_scores.view(groups, -1, columns)
    distances.add(layer, to_scores, position.view(groups, -1, width))
    to_position = (to_scores @ distances.projected[layer]).view_as(position)
    operations.biased_queries_gradient(to_query, to_position, weights.bias_sums[layer], scale_of(call))


def split_heads(projected: Tensor, call: SegmentCall) -> tuple[Tensor, ...]:
    """(S, N, 3 · H · E) -> queries, keys and values (S · B, K, H, E), views."""
    shape = (call.cache + call.rows, 3, call.weights.config.heads, call.weights.head)
    return projected.view(-1, *shape).unbind(2)


def queries_and_keys(projected: Tensor, call: SegmentCall) -> Tensor:
    """Queries and keys side by side, (S · B, K, 2 · H, E), a view: both are rotated."""
    heads, width = call.weights.config.heads, call.weights.head
    return projected.view(-1, call.cache + call.rows, 3 * heads, width)[:, :, : 2 * heads]


def scale_of(call: SegmentCall) -> float:
    """Of scores, by the true width of a head."""
    return call.weights.config.head_width**-0.5
