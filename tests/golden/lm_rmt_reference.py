"""Slow, literal reference of the paper's language model (LM-RMT), for tests only.

Written from a description of what the original computes and how its checkpoints are laid out; nothing is
taken from the package under test. It works on a plain state dict, whose entries may require grad; no dropout.

Tensors are time-major, as in the original; positions are counted along [cache | read | sequence | write].
S sequence tokens · B batch · M memory tokens · C cached rows · D width · H heads · E head width
V vocabulary · N layers · Q = M + S (+ M) query rows · K = C + Q key rows
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tests.golden.lm_rmt_words import (
    EMBEDDING,
    OUTPUT_BIAS,
    OUTPUT_WEIGHT,
    adaptive_log_probabilities,
    embed,
    plain_logits,
)

MEMORY = "mem_tokens"


class Output(NamedTuple):
    """Of one segment: logits (S, B, V), next memory (M, B, D), next cache: N + 1 of (≤ mem_len, B, D).

    With an adaptive softmax the logits are the log-probabilities of all words.
    """

    logits: Tensor
    memory: Tensor
    cache: list[Tensor]


def forward(
    state_dict: dict[str, Tensor],
    ids: Tensor,
    memory: Tensor,
    cache: list[Tensor],
    *,
    mem_len: int,
    write: bool,
    memory_sees_cache: bool,
    cutoffs: tuple[int, ...] = (),
) -> Output:
    """Run one segment of `ids` (S, B).

    `write` is the original's mem_at_end, `memory_sees_cache` its read_mem_from_cache; `cutoffs` are those of
    an adaptive softmax, without the vocabulary at the end.
    `memory` (M, B, D) comes from `initial_memory` or the previous output and keeps its graph; M may be 0.
    `cache` comes from `empty_cache` or the previous output and carries no graph.
    """
    tokens, memories, cached = ids.shape[0], memory.shape[0], cache[0].shape[0]
    embedded = embed(state_dict, ids, cutoffs) * math.sqrt(memory.shape[2])
    blocks = [memory, embedded, memory] if write else [memory, embedded]
    hidden = torch.cat(blocks)  # (Q, B, D)

    blocked = attention_mask(tokens, memories, cached, write=write, memory_sees_cache=memory_sees_cache)
    positions = sinusoids(cached + hidden.shape[0], hidden)
    layer_inputs = [hidden]
    for layer in range(layer_count(state_dict)):
        hidden = run_layer(state_dict, layer, hidden, cache[layer], positions, blocked)
        layer_inputs.append(hidden)

    output = adaptive_log_probabilities if cutoffs else plain_logits
    logits = output(state_dict, hidden[memories : memories + tokens], cutoffs)
    new_memory = hidden[memories + tokens :] if write else hidden[:memories]
    new_cache = [
        last_rows(torch.cat([old, new]), mem_len).detach()
        for old, new in zip(cache, layer_inputs, strict=True)
    ]
    return Output(logits, new_memory, new_cache)


def initial_memory(state_dict: dict[str, Tensor], batch: int) -> Tensor:
    """The learned memory repeated over the batch (M, B, D); M = 0 for a Transformer-XL checkpoint."""
    if MEMORY not in state_dict:
        embedding = state_dict[EMBEDDING]
        return embedding.new_zeros(0, batch, embedding.shape[1])
    return state_dict[MEMORY].repeat(1, batch, 1)


def empty_cache(state_dict: dict[str, Tensor], batch: int) -> list[Tensor]:
    """The cache before the first segment: N + 1 tensors without rows."""
    embedding = state_dict[EMBEDDING]
    return [embedding.new_zeros(0, batch, embedding.shape[1]) for _ in range(layer_count(state_dict) + 1)]


def attention_mask(
    tokens: int, memories: int, cached: int, *, write: bool, memory_sees_cache: bool
) -> Tensor:
    """The blocked pairs (Q, K), True = blocked, built as the original does."""
    queries = memories + tokens + (memories if write else 0)
    blocked = torch.ones(queries, cached + queries).triu(diagonal=1 + cached).bool()
    read_rows = slice(0, memories)
    blocked[read_rows, cached : cached + memories] = False
    blocked[read_rows, :cached] = not memory_sees_cache
    if write:
        write_rows = slice(memories + tokens, queries)
        blocked[write_rows, cached + memories + tokens :] = False
        blocked[write_rows, :cached] = not memory_sees_cache
    return blocked


def sinusoids(keys: int, like: Tensor) -> Tensor:
    """The position vectors (K, D) of the distances K-1, …, 1, 0: [sines | cosines]."""
    distances = torch.arange(keys - 1, -1, -1, dtype=like.dtype, device=like.device)
    angles = torch.outer(distances, inverse_frequencies(like.shape[-1], like.dtype).to(like.device))
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def inverse_frequencies(width: int, dtype: torch.dtype) -> Tensor:
    """10000^(-2t/D) for t = 0 … D/2 - 1."""
    return 10000.0 ** (-torch.arange(0, width, 2, dtype=dtype) / width)


def run_layer(
    state_dict: dict[str, Tensor],
    layer: int,
    hidden: Tensor,
    cached: Tensor,
    positions: Tensor,
    blocked: Tensor,
) -> Tensor:
    """One post-norm layer: LN(x + attention(x)), then LN(x + FFN(x))."""
    prefix = f"layers.{layer}."
    attended = attend(state_dict, prefix + "dec_attn.", hidden, cached, positions, blocked)
    hidden = layer_norm(state_dict, prefix + "dec_attn.layer_norm.", hidden + attended)

    first, second = prefix + "pos_ff.CoreNet.0.", prefix + "pos_ff.CoreNet.3."
    inner = functional.linear(hidden, state_dict[first + "weight"], state_dict[first + "bias"]).relu()
    outer = functional.linear(inner, state_dict[second + "weight"], state_dict[second + "bias"])
    return layer_norm(state_dict, prefix + "pos_ff.layer_norm.", hidden + outer)


def attend(
    state_dict: dict[str, Tensor],
    prefix: str,
    hidden: Tensor,
    cached: Tensor,
    positions: Tensor,
    blocked: Tensor,
) -> Tensor:
    """Relative attention of the rows of `hidden` to [cached; hidden], projected to (Q, B, D)."""
    content_bias, position_bias = state_dict["r_w_bias"], state_dict["r_r_bias"]
    per_head = content_bias.shape  # (H, E)
    source = torch.cat([cached, hidden])
    fused = functional.linear(source, state_dict[prefix + "qkv_net.weight"])
    query, key, value = (part.unflatten(-1, per_head) for part in fused.chunk(3, dim=-1))  # (K, B, H, E)
    query = query[cached.shape[0] :]  # (Q, B, H, E)
    relation = functional.linear(positions, state_dict[prefix + "r_net.weight"])
    relation = relation.unflatten(-1, per_head)  # (K, H, E)

    content_term = torch.einsum("qbhe,kbhe->qkbh", query + content_bias, key)
    position_term = torch.einsum("qbhe,khe->qkbh", query + position_bias, relation)
    scores = (content_term + relative_shift(position_term)) / math.sqrt(per_head[1])
    weights = scores.masked_fill(blocked.to(scores.device)[:, :, None, None], -math.inf).softmax(dim=1)
    mixed = torch.einsum("qkbh,kbhe->qbhe", weights, value)
    return functional.linear(mixed.flatten(-2), state_dict[prefix + "o_net.weight"])


def relative_shift(scores: Tensor) -> Tensor:
    """Transformer-XL's pad-and-reshape on (Q, K, …): column j was distance K-1-j and becomes key j.

    A zero column goes in front, the buffer is read again as (K+1, Q), its first row goes away, and the rest
    is read as (Q, K). What that leaves above the diagonal (keys after the query) is its artefact.
    """
    queries, keys = scores.shape[:2]
    padded = torch.cat([torch.zeros_like(scores[:, :1]), scores], dim=1)  # (Q, K+1, …)
    reread = padded.reshape(keys + 1, queries, *scores.shape[2:])
    return reread[1:].reshape(scores.shape)


def layer_norm(state_dict: dict[str, Tensor], prefix: str, hidden: Tensor) -> Tensor:
    """LayerNorm over the width with the gain and bias under `prefix`."""
    gain, bias = state_dict[prefix + "weight"], state_dict[prefix + "bias"]
    return functional.layer_norm(hidden, gain.shape, gain, bias, eps=1e-5)


def last_rows(rows: Tensor, count: int) -> Tensor:
    """The last `count` rows, or all when there are fewer; none for 0."""
    return rows[max(0, rows.shape[0] - count) :]


def layer_count(state_dict: dict[str, Tensor]) -> int:
    """N, counted by the key that each layer has once."""
    return sum(name.endswith(".dec_attn.qkv_net.weight") for name in state_dict)


def random_state_dict(
    seed: int,
    vocabulary: int,
    width: int,
    heads: int,
    head_width: int,
    inner: int,
    layers: int,
    memory: int,
    dtype: torch.dtype = torch.float64,
) -> dict[str, Tensor]:
    """A random checkpoint in the original layout; no entry is neutral, so that no error can hide.

    The output weight is the same tensor as the embedding (tied); `forward` reads the embedding only.
    Without memory tokens there is no `mem_tokens`: a Transformer-XL checkpoint.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, mean: float = 0.0, std: float = 0.2) -> Tensor:
        return mean + std * torch.randn(*shape, generator=generator, dtype=dtype)

    joined = heads * head_width
    embedding = normal(vocabulary, width)
    state_dict = {
        EMBEDDING: embedding,
        OUTPUT_WEIGHT: embedding,
        OUTPUT_BIAS: normal(vocabulary),
        "pos_emb.inv_freq": inverse_frequencies(width, dtype),
        "r_w_bias": normal(heads, head_width),
        "r_r_bias": normal(heads, head_width),
    }
    if memory:
        state_dict[MEMORY] = normal(memory, 1, width, std=1.0)
    for layer in range(layers):
        attention, feed_forward = f"layers.{layer}.dec_attn.", f"layers.{layer}.pos_ff."
        state_dict |= {
            attention + "qkv_net.weight": normal(3 * joined, width),
            attention + "o_net.weight": normal(width, joined),
            attention + "r_net.weight": normal(joined, width),
            attention + "layer_norm.weight": normal(width, mean=1.0),
            attention + "layer_norm.bias": normal(width),
            feed_forward + "CoreNet.0.weight": normal(inner, width),
            feed_forward + "CoreNet.0.bias": normal(inner),
            feed_forward + "CoreNet.3.weight": normal(width, inner),
            feed_forward + "CoreNet.3.bias": normal(width),
            feed_forward + "layer_norm.weight": normal(width, mean=1.0),
            feed_forward + "layer_norm.bias": normal(width),
        }
    return state_dict
