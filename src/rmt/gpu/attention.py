"""Attention of the fast layers: projected rows become heads, look, and hand gradients back."""

# S seeds · B batch · C cached rows · R rows of a segment · T rows that look · K = C+R keys · N = B·K or B·T
# H heads · E head width · W distances

from __future__ import annotations

import torch
from torch import Tensor

from rmt.gpu.heads import HeadGradients, Heads, RelativeHeads
from rmt.gpu.parameters import FastParameters
from rmt.gpu.segment import AttentionRecord, SegmentCall


def attend(projected: Tensor, output: Tensor, layer: int, call: SegmentCall) -> AttentionRecord:
    """The last rows of [cache ∘ segment] look at all of it; `output` (S, N, H · E) is written.

    Rotary positions rotate what is projected, in place.
    """
    weights, operations = call.weights, call.weights.operations
    if not weights.is_relative:
        operations.rotate(rotated_heads(projected, weights, call), *weights.table(call.axis))
    rows_out = call.rows_out(layer)
    query, key, value = heads_of(projected, call)
    query, scale = query[:, -rows_out:], weights.config.head_width**-0.5
    output = output.view(query.shape)
    if not weights.is_relative:
        heads = Heads(query, key, value, None, call.seen(rows_out), scale)
        return AttentionRecord(projected, query, None, None, output, operations.attention(heads, output))
    distances = weights.projected_distances(call.axis, call.dropout).projected[layer]
    biases = weights.biases.stored
    if operations.fits_short_attention(query, key, distances):
        short = RelativeHeads(query, key, value, biases, distances, call.seen(rows_out), scale)
        return AttentionRecord(projected, query, None, None, output, operations.short_attention(short, output))
    seeded = query.reshape(weights.seeds, -1, *query.shape[2:])
    content, position = operations.position_queries(seeded, biases, scale)
    query, seen = content.view(query.shape), call.seen(rows_out)
    scores = (position.flatten(0, 1) @ distances.mT).view(len(position), len(query), rows_out, -1)
    bias = operations.align_distances(scores, seen, key.shape[1]).transpose(0, 1)
    heads = Heads(query, key, value, bias, seen, scale)
    return AttentionRecord(projected, query, position, bias, output, operations.attention(heads, output))


def attend_gradient(
    to_output: Tensor, to_projected: Tensor, record: AttentionRecord, layer: int, call: SegmentCall
) -> None:
    """Write the gradient of the projected rows (S, N, 3 · H · E); `to_output` is (S · B, T, H, E)."""
    weights, operations = call.weights, call.weights.operations
    rows_out, scale = call.rows_out(layer), weights.config.head_width**-0.5
    _, key, value = heads_of(record.projected, call)
    to_query, to_key, to_value = heads_of(to_projected, call)
    seen, to_last = call.seen(rows_out), to_query[:, -rows_out:]
    to_query[:, : to_query.shape[1] - rows_out] = 0
    if weights.is_relative and record.bias is None:
        distances = weights.projected_distances(call.axis, call.dropout)
        biases, sums = weights.biases.stored, weights.short_bias_sums(len(key))[layer]
        short = RelativeHeads(record.query, key, value, biases, distances.projected[layer], seen, scale)
        gradients = HeadGradients(to_last, to_key, to_value, None)
        factors = operations.short_attention_gradient(short, to_output, record.lse, gradients, sums)
        distances.gradients.add(distances.gradients.slot_of(layer, factors[1]), factors[0])
        return
    to_bias = None if record.bias is None else torch.empty_like(record.bias)
    heads = Heads(record.query, key, value, record.bias, seen, scale)
    gradients = HeadGradients(to_last, to_key, to_value, to_bias)
    operations.attention_gradient(heads, to_output, record.output, record.lse, gradients)
    if to_bias is not None:
        distances_gradient(to_last, to_bias, record, layer, call)
    if not weights.is_relative:
        operations.rotate(
            rotated_heads(to_projected, weights, call), *weights.table(call.axis), back=True
        )


def distances_gradient(
    to_query: Tensor, to_bias: Tensor, record: AttentionRecord, layer: int, call: SegmentCall
) -> None:
    """From the gradient of aligned scores to those of distances, of position biases and, added, of queries."""
    weights, operations = call.weights, call.weights.operations
    assert record.position is not None
    distances = weights.projected_distances(call.axis, call.dropout)
    columns = distances.projected.shape[2]
    to_scores = operations.align_distances_gradient(to_bias.transpose(0, 1), call.seen(to_query.shape[1]), columns)
    to_scores = to_scores.view(distances.projected.shape[1], -1, columns)
    distances.gradients.add(distances.gradients.slot_of(layer, record.position.flatten(0, 1)), to_scores)
    to_position = (to_scores @ distances.projected[layer]).view_as(record.position)
    operations.position_queries_gradient(
        to_query, to_position, weights.bias_sums[layer], weights.config.head_width**-0.5
    )


def heads_of(projected: Tensor, call: SegmentCall) -> tuple[Tensor, ...]:
    """(S, N, 3 · H · E) -> queries, keys and values (S · B, K, H, E), views."""
    shape = (call.cache + call.rows, 3, call.weights.config.heads, call.weights.head)
    return projected.view(-1, *shape).unbind(2)


def rotated_heads(projected: Tensor, weights: FastParameters, call: SegmentCall) -> Tensor:
    """Queries and keys side by side, (S · B, K, 2 · H, E), a view."""
    heads = weights.config.heads
    return projected.view(-1, call.cache + call.rows, 3 * heads, weights.head)[:, :, : 2 * heads]
