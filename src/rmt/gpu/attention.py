"""Attention of the fast layers: projected rows become heads, look, and hand gradients back."""

# S seeds · B batch · C cached rows · R rows of a segment · T rows that look · K = C+R keys · N = B·K or B·T
# H heads · E head width · W distances

from __future__ import annotations

import torch
from torch import Tensor

from rmt.gpu.heads import HeadGradients, Heads, RelativeGradients, RelativeHeads
from rmt.gpu.segment import AttentionRecord, SegmentCall


def attend(projected: Tensor, output: Tensor, layer: int, call: SegmentCall) -> AttentionRecord:
    """The last rows of [cache ∘ segment] look at all of it; `output` (S, N, H · E) is written.

    Rotary positions rotate what is projected, in place.
    """
    weights, operations = call.weights, call.weights.operations
    if not weights.is_relative:
        operations.rotate(rotated_heads(projected, call), *weights.tables.rotations(call.axis))
    rows_out = call.rows_out(layer)
    query, key, value = heads_of(projected, call)
    query, scale = query[:, -rows_out:], weights.config.head_width**-0.5
    output = output.view(query.shape)
    if not weights.is_relative:
        heads = Heads(query, key, value, None, call.seen(rows_out), scale)
        return AttentionRecord(projected, query, None, None, output, operations.attention(heads, output))
    heads = Heads(query, key, value, None, call.seen(rows_out), scale)
    distances = weights.distances.of_segment(call.axis, call.dropout).projected[layer]
    relative = RelativeHeads(heads, weights.biases.stored, distances)
    if operations.fits_short_attention(relative):
        lse = operations.short_attention(relative, output)
        return AttentionRecord(projected, query, None, None, output, lse)
    content, position = operations.biased_queries(query, weights.biases.stored, scale)
    scores = position.view(len(distances), -1, position.shape[-1]) @ distances.mT
    bias = operations.aligned(scores.view(*position.shape[:3], -1), heads.seen).transpose(0, 1)
    lse = operations.attention(heads._replace(query=content, bias=bias), output)
    return AttentionRecord(projected, content, position, bias, output, lse)


def attend_gradient(
    to_output: Tensor, to_projected: Tensor, record: AttentionRecord, layer: int, call: SegmentCall
) -> None:
    """Write the gradient of the projected rows (S, N, 3 · H · E); `to_output` is (S · B, T, H, E)."""
    weights, operations = call.weights, call.weights.operations
    rows_out, scale = call.rows_out(layer), weights.config.head_width**-0.5
    _, key, value = heads_of(record.projected, call)
    to_query, to_key, to_value = heads_of(to_projected, call)
    to_last = to_query[:, -rows_out:]
    if rows_out < to_query.shape[1]:
        to_query[:, :-rows_out] = 0
    heads = Heads(record.query, key, value, record.bias, call.seen(rows_out), scale)
    if weights.is_relative and record.bias is None:
        distances = weights.distances.of_segment(call.axis, call.dropout)
        relative = RelativeHeads(heads, weights.biases.stored, distances.projected[layer])
        sums = weights.short_bias_sums(len(key))[layer]
        places = RelativeGradients(to_last, to_key, to_value, sums)
        distances.add(layer, *operations.short_attention_gradient(relative, to_output, record.lse, places))
        return
    to_bias = None if record.bias is None else torch.empty_like(record.bias)
    gradients = HeadGradients(to_last, to_key, to_value, to_bias)
    operations.attention_gradient(heads, to_output, record.output, record.lse, gradients)
    if to_bias is not None:
        distances_gradient(to_last, to_bias, record, layer, call)
    if not weights.is_relative:
        operations.rotate(
            rotated_heads(to_projected, call), *weights.tables.rotations(call.axis), backward=True
        )


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
    sums, scale = weights.bias_sums[layer], weights.config.head_width**-0.5
    operations.biased_queries_gradient(to_query, to_position, sums, scale)


def heads_of(projected: Tensor, call: SegmentCall) -> tuple[Tensor, ...]:
    """(S, N, 3 · H · E) -> queries, keys and values (S · B, K, H, E), views."""
    shape = (call.cache + call.rows, 3, call.weights.config.heads, call.weights.head)
    return projected.view(-1, *shape).unbind(2)


def rotated_heads(projected: Tensor, call: SegmentCall) -> Tensor:
    """Queries and keys side by side, (S · B, K, 2 · H, E), a view."""
    heads, width = call.weights.config.heads, call.weights.head
    return projected.view(-1, call.cache + call.rows, 3 * heads, width)[:, :, : 2 * heads]
