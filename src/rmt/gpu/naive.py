"""Plain twins of the kernels, in torch: the same names, arguments and results, in any precision."""

# S seeds · B batch · N = S·B segments · T queries · K keys · H heads · E head width · W distances
# rows (S, N, D): there N rows of a seed · D width · F inner width · V classes

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.gpu.dropout import SEGMENT_STEP, WORD, Drop
from rmt.gpu.heads import (
    BiasedQueries,
    DistanceFactors,
    HeadGradients,
    Heads,
    RelativeGradients,
    RelativeHeads,
    Seen,
)
from rmt.gpu.norms import EPSILON, Branch, Norm, Normed
from rmt.gpu.tiles import padded
from rmt.gpu.weight_gradients import sum_format


def max_fused_bytes(device: torch.device) -> int:
    """No layer is fused: what the fused kernels do is `rmt.gpu.layers.finish_layer` and `finish_gradient`."""
    return 0


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
    return result.scatter_add_(-1, columns_of(result, keys), visible)


def columns_of(scores: Tensor, keys: int) -> Tensor:
    """Where in (H, N, T, W) the distance between a query and a key stands: column T-1-i + j, (H, N, T, K).

    Where no query sees a key at a distance it has no column; the last stands for it.
    """
    length, columns = scores.shape[2:]
    query, key = (torch.arange(count, device=scores.device) for count in (length, keys))
    return (length - 1 - query[:, None] + key).clamp(max=columns - 1).expand(*scores.shape[:3], -1)


def heads_first(seen: Seen) -> Tensor:
    """What is seen, to be laid over (H, N, T, K)."""
    return seen.mask() if seen.missing is None else seen.mask().squeeze(1)


def fits_short_attention(relative: RelativeHeads) -> bool:
    """No: `attention` and `aligned` do for segments of any length."""
    return False


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


def norm(x: Tensor, norm: Norm, normal: Tensor, drop: Drop | None = None) -> Normed:
    """The layer norm of dropout(x), rows (S, N, D), written to `normal`."""
    x = x if drop is None else dropout(x, drop)
    true = x[..., : norm.width]
    moments = torch.stack([true.mean(-1), (true.var(-1, correction=0) + EPSILON).rsqrt()])
    rows = units(x, moments, norm.width) * norm.gain[:, None] + norm.shift[:, None]
    return Normed(x, normal.copy_(rows), moments)


def add_norm(residual: Tensor, branch: Branch, parameters: Norm, normal: Tensor) -> Normed:
    """The layer norm of residual + dropout(branch), written to `normal`."""
    rows = branch.rows.to(parameters.gain.dtype)
    rows = rows if branch.bias is None else rows + branch.bias[:, None]
    rows = rows if branch.drop is None else dropout(rows, branch.drop)
    return norm((residual + rows).to(residual.dtype), parameters, normal)


def norm_gradient(
    gradient: Tensor, to_residual: Tensor | None, normed: Normed, norm: Norm, drop: Drop | None
) -> tuple[Tensor, Tensor]:
    """The gradient of what a norm was taken of, and that of the branch in it, for products.

    `gradient` is (S, N, D), or rows in groups with others between, (S, B, R, D). `to_residual` is that of
    the residual, which goes on from before the norm, or post-norm's from behind it. To `norm.sums` go the
    gradients of gain and shift, and of the branch's bias.
    """
    assert normed.moments is not None
    width, dtype, gradient = norm.width, norm.gain.dtype, gradient.flatten(1, -2)
    unit, incoming = units(normed.total.to(dtype), normed.moments, width)[..., :width], gradient.to(dtype)
    if to_residual is not None and norm.is_post:
        incoming = incoming + to_residual
    incoming = incoming[..., :width]
    back = incoming * norm.gain[:, None, :width]
    back = back - back.mean(-1, keepdim=True) - unit * (back * unit).mean(-1, keepdim=True)
    to_total = F.pad(back * normed.moments[1, ..., None], (0, gradient.shape[-1] - width))
    if to_residual is not None and not norm.is_post:
        to_total = to_total + to_residual
    to_branch = to_total if drop is None else dropout(to_total, drop)
    parts = torch.stack([incoming * unit, incoming, to_branch[..., :width]], 1)
    norm.sums[:, 0, :, :width] += parts.sum(2)
    return to_total.to(normed.total.dtype), to_branch.to(norm.dtype)


def units(x: Tensor, moments: Tensor, width: int) -> Tensor:
    """Rows with mean 0 and variance 1, zero behind the true width."""
    mean, scale = moments[..., None]
    return F.pad((x[..., :width] - mean) * scale, (0, x.shape[-1] - width))


def up_relu(x: Tensor, matrix: Tensor, bias: Tensor, drop: Drop | None, inner: Tensor) -> Tensor:
    """dropout(max(0, x matrixᵀ + bias)), written to `inner` (S, N, F)."""
    rows = (x @ matrix.mT + bias[:, None]).relu()
    return inner.copy_(rows if drop is None else dropout(rows, drop))


def relu_down_gradient(gradient: Tensor, matrix: Tensor, inner: Tensor, sums: Tensor, scale: float) -> Tensor:
    """scale · gradient matrix (S, N, F) where `inner` is positive; sums over rows go to (S, blocks, F)."""
    to_inner = torch.where(inner > 0, gradient @ matrix * scale, 0.0)
    sums[:, 0] += to_inner.sum(1)
    return to_inner


def dropout(rows: Tensor, drop: Drop, segments: int = 1) -> Tensor:
    """Rows (S, N, D) with zeros where the mask says so, the others scaled up.

    Those of several segments in a row, (S, segments, N, D), each have the mask of their own.
    """
    if segments > 1:
        sites = range(drop.site, drop.site + segments * SEGMENT_STEP, SEGMENT_STEP)
        parts = zip(rows.unbind(1), sites, strict=True)
        return torch.stack([dropout(part, drop._replace(site=site)) for part, site in parts], 1)
    return torch.where(kept(drop, rows.shape).to(rows.device), rows * drop.scale, 0.0).to(rows.dtype)


def kept(drop: Drop, shape: torch.Size) -> Tensor:
    """The mask (S, …): a hash of every element's number in its seed, as in `rmt.gpu.kernels.dropout`."""
    keys, site = drop.keys, torch.tensor(drop.site, device=drop.keys.device)
    elements = torch.arange(shape[1:].numel(), device=keys.device).view(1, *shape[1:])
    ones = (1,) * (len(shape) - 1)
    low = mixed(keys[:, 0] ^ mixed(site)).view(-1, *ones)
    high = mixed((keys[:, 1] + site) % WORD).view(-1, *ones)
    word = (elements * 0x9E3779B1 + low) % WORD
    word = ((word ^ (word >> 16)) * 0x7FEB352D + high) % WORD
    return (word ^ (word >> 15)) * 0x846CA68B % WORD >= drop.threshold


def mixed(word: Tensor) -> Tensor:
    """The 32-bit hash triple32, in int64: torch has no arithmetic in uint32."""
    for shift, factor in ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB)):
        word = (word ^ (word >> shift)) * factor % WORD
    return word ^ (word >> 14)


def cross_entropy(scores: Tensor, targets: Tensor, classes: int, keep: bool) -> tuple[Tensor, Tensor]:
    """Losses (S, N) of scores (S, N, V), of which the first `classes` exist, and the gradient of the scores.

    A target below zero has no loss. Unless they are to be kept, the scores may be overwritten.
    """
    logs = scores[..., :classes].to(sum_format(scores.dtype)).log_softmax(-1)
    chosen = F.one_hot(targets.clamp(min=0), classes).to(logs.dtype)
    has_target = (targets >= 0)[..., None]
    losses = -torch.where(has_target, logs * chosen, 0.0).sum(-1)
    to_scores = torch.where(has_target, logs.exp() - chosen, 0.0)
    return losses, F.pad(to_scores, (0, scores.shape[-1] - classes)).to(scores.dtype)
