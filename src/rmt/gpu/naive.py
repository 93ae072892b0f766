"""Plain twins of the kernels, in torch: the same names, signatures and results, in any precision."""

# S seeds · B batch · N = S·B segments · T queries · K keys · H heads · E head width · W distances

from __future__ import annotations

import torch
from torch import Tensor

from rmt.gpu.heads import (
    BiasedQueries,
    DistanceFactors,
    HeadGradients,
    Heads,
    RelativeGradients,
    RelativeHeads,
    Seen,
)
from rmt.gpu.tiles import padded


def exact(x: Tensor) -> Tensor:
    """In the precision that sums are made in: float64 stays, all else becomes float32."""
    return x if x.dtype == torch.float64 else x.float()


def attention(heads: Heads, output: Tensor) -> Tensor:
    """The twin of `rmt.gpu.kernels.attention.attention`."""
    scores = scores_of(heads)
    lse = scores.logsumexp(-1)
    p = (scores - lse[..., None]).exp()
    output.copy_(torch.einsum("nhtk,nkhe->nthe", p, exact(heads.value)))
    return lse


def attention_gradient(
    heads: Heads, to_output: Tensor, output: Tensor, lse: Tensor, gradients: HeadGradients
) -> None:
    """The twin of `rmt.gpu.kernels.attention.attention_gradient`."""
    query, key, value, do = map(exact, (*heads[:3], to_output))
    p = (scores_of(heads) - lse[..., None]).exp()
    dp = torch.einsum("nthe,nkhe->nhtk", do, value)
    delta = (do * exact(output)).sum(-1).transpose(1, 2)  # (N, H, T)
    ds = p * (dp - delta[..., None])
    gradients.query.copy_(torch.einsum("nhtk,nkhe->nthe", ds, key) * heads.scale)
    gradients.key.copy_(torch.einsum("nhtk,nthe->nkhe", ds, query) * heads.scale)
    gradients.value.copy_(torch.einsum("nhtk,nthe->nkhe", p, do))
    if gradients.bias is not None:
        gradients.bias[..., : ds.shape[-1]] = ds


def scores_of(heads: Heads) -> Tensor:
    """Scores (N, H, T, K), -inf where a query does not see a key."""
    scores = torch.einsum("nthe,nkhe->nhtk", exact(heads.query), exact(heads.key)) * heads.scale
    if heads.bias is not None:
        scores = scores + heads.bias[..., : scores.shape[-1]]
    return torch.where(heads.seen.mask(), scores, -torch.inf)


def biased_queries(query: Tensor, biases: Tensor, scale: float) -> BiasedQueries:
    """The twin of `rmt.gpu.kernels.relative.biased_queries`."""
    by_seed = exact(query).unflatten(0, (biases.shape[1], -1))  # (S, B, T, H, E)
    content, position = (by_seed + bias[:, None, None] for bias in biases)
    position = (position.flatten(0, 1) * scale).permute(2, 0, 1, 3)
    return BiasedQueries(content.flatten(0, 1).to(query.dtype), position.to(query.dtype).contiguous())


def biased_queries_gradient(to_query: Tensor, to_position: Tensor, sums: Tensor, scale: float) -> None:
    """The twin of `rmt.gpu.kernels.relative.biased_queries_gradient`."""
    of_position = exact(to_position).permute(1, 2, 0, 3) * scale
    both = torch.stack([exact(to_query), of_position], 1)  # (N, 2, T, H, E)
    sums[:, 0] += both.sum(2).unflatten(0, (len(sums), -1)).sum(1)
    to_query.add_(of_position)


def aligned(scores: Tensor, seen: Seen) -> Tensor:
    """The twin of `rmt.gpu.kernels.relative.aligned`."""
    keys = seen.keys
    result = scores.new_zeros(*scores.shape[:3], padded(keys))
    result[..., :keys] = torch.where(heads_first(seen), scores.gather(-1, columns_of(scores, keys)), 0)
    return result


def aligned_gradient(to_aligned: Tensor, columns: int, seen: Seen) -> Tensor:
    """The twin of `rmt.gpu.kernels.relative.aligned_gradient`."""
    keys = seen.keys
    visible = torch.where(heads_first(seen), to_aligned[..., :keys], 0)
    result = to_aligned.new_zeros(*to_aligned.shape[:3], columns)
    return result.scatter_(-1, columns_of(to_aligned, keys), visible)


def columns_of(scores: Tensor, keys: int) -> Tensor:
    """Where in (H, N, T, W) the distance between a query and a key stands: column T-1-i + j, (H, N, T, K)."""
    length = scores.shape[2]
    query, key = (torch.arange(count, device=scores.device) for count in (length, keys))
    return (length - 1 - query[:, None] + key).expand(*scores.shape[:3], -1)


def heads_first(seen: Seen) -> Tensor:
    """What is seen, to be laid over (H, N, T, K)."""
    return seen.mask() if seen.missing is None else seen.mask().squeeze(1)


def short_attention(relative: RelativeHeads, output: Tensor) -> Tensor:
    """The twin of `rmt.gpu.kernels.short_attention.short_attention`."""
    return attention(with_bias(relative)[0], output)


def short_attention_gradient(
    relative: RelativeHeads, to_output: Tensor, lse: Tensor, gradients: RelativeGradients
) -> DistanceFactors:
    """The twin of `rmt.gpu.kernels.short_attention.short_attention_gradient`."""
    heads, position = with_bias(relative)
    groups, columns, _ = relative.distances.shape
    output, to_bias = torch.empty_like(exact(to_output)), torch.zeros_like(exact(bias_of(heads)))
    attention(heads, output)
    attention_gradient(heads, to_output, output, lse, HeadGradients(*gradients[:3], to_bias))
    to_scores = aligned_gradient(to_bias.transpose(0, 1), columns, heads.seen).to(to_output.dtype)
    to_scores = to_scores.reshape(groups, -1, columns)
    to_position = (to_scores @ relative.distances).view_as(position)
    segments = gradients.biases.flatten(0, 1)[:, None]  # each for itself: (N, 1, 2, H, E)
    biased_queries_gradient(gradients.query, to_position, segments, heads.scale)
    return DistanceFactors(to_scores, position.reshape(groups, -1, position.shape[-1]))


def with_bias(relative: RelativeHeads) -> tuple[Heads, Tensor]:
    """Heads whose bias are the scores of distances, and the queries (H, N, T, E) that asked for them."""
    heads, biases, distances = relative
    content, position = biased_queries(heads.query, biases, heads.scale)
    scores = position.reshape(len(distances), -1, position.shape[-1]) @ distances.mT
    bias = aligned(scores.view(*position.shape[:3], -1), heads.seen)
    return heads._replace(query=content, bias=bias.transpose(0, 1)), position


def bias_of(heads: Heads) -> Tensor:
    """The bias of heads that have one."""
    assert heads.bias is not None
    return heads.bias


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, backward: bool = False) -> None:
    """The twin of `rmt.gpu.kernels.rotary.rotate`."""
    a, b = exact(x).chunk(2, dim=-1)
    cos, sin = cosine[:, None], sine[:, None] * (-1 if backward else 1)
    x.copy_(torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1))
