"""Embedding and softmax of the reference, plain and adaptive; the adaptive one as Transformer-XL has it.

S sequence tokens · B batch · D width · V vocabulary · K tail clusters
"""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

EMBEDDING = "word_emb.emb_layers.0.weight"
OUTPUT_WEIGHT = "crit.out_layers.0.weight"
OUTPUT_BIAS = "crit.out_layers.0.bias"
CLUSTER_WEIGHT = "crit.cluster_weight"
CLUSTER_BIAS = "crit.cluster_bias"


def embed(state_dict: dict[str, Tensor], ids: Tensor, cutoffs: tuple[int, ...]) -> Tensor:
    """The rows of the tokens (S, B, D), not yet scaled; token by token where each cluster has its table."""
    if "word_emb.emb_projs.0" not in state_dict:
        return functional.embedding(ids, state_dict[EMBEDDING])
    ends = (0, *cutoffs)
    rows = []
    for token in ids.flatten().tolist():
        cluster = max(i for i, end in enumerate(ends) if token >= end)
        row = state_dict[f"word_emb.emb_layers.{cluster}.weight"][token - ends[cluster]]
        rows.append(functional.linear(row, state_dict[f"word_emb.emb_projs.{cluster}"]))
    return torch.stack(rows).unflatten(0, ids.shape)


def plain_logits(state_dict: dict[str, Tensor], hidden: Tensor, cutoffs: tuple[int, ...]) -> Tensor:
    """Scores of all words (S, B, V), by the embedding."""
    return functional.linear(hidden, state_dict[EMBEDDING], state_dict[OUTPUT_BIAS])


def adaptive_log_probabilities(
    state_dict: dict[str, Tensor], hidden: Tensor, cutoffs: tuple[int, ...]
) -> Tensor:
    """Log-probabilities of all words (S, B, V): those of the head's, then one tail after the other.

    The head scores its words and the K clusters; tail i takes the head's i-th column from the end.
    """
    weight, bias, projected = cluster_rows(state_dict, hidden, 0, cutoffs)
    weight = torch.cat([weight, state_dict[CLUSTER_WEIGHT]])
    bias = torch.cat([bias, state_dict[CLUSTER_BIAS]])
    head = functional.linear(projected, weight, bias).log_softmax(-1)  # (S, B, words of the head + K)
    found = [head[:, :, : cutoffs[0]]]
    for tail in range(1, len(cutoffs) + 1):
        weight, bias, projected = cluster_rows(state_dict, hidden, tail, cutoffs)
        inside = functional.linear(projected, weight, bias).log_softmax(-1)
        found.append(head[:, :, -tail].unsqueeze(-1) + inside)
    return torch.cat(found, dim=-1)


def cluster_rows(
    state_dict: dict[str, Tensor], hidden: Tensor, cluster: int, cutoffs: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Weight and bias of a cluster's words, and the hidden states in their width.

    The tails' output projections are those of the embedding (tied); the head's is its own.
    """
    if "word_emb.emb_projs.0" not in state_dict:
        ends = (0, *cutoffs, None)
        words = slice(ends[cluster], ends[cluster + 1])
        return state_dict[EMBEDDING][words], state_dict[OUTPUT_BIAS][words], hidden
    weight = state_dict[f"word_emb.emb_layers.{cluster}.weight"]
    bias = state_dict[f"crit.out_layers.{cluster}.bias"]
    projection = state_dict[f"word_emb.emb_projs.{cluster}" if cluster else "crit.out_projs.0"]
    return weight, bias, functional.linear(hidden, projection.t())


def with_adaptive_softmax(
    state_dict: dict[str, Tensor], cutoffs: tuple[int, ...], div_val: int
) -> dict[str, Tensor]:
    """The checkpoint with K clusters; div_val 1 keeps its one table, above each cluster has a narrower one.

    Tied tensors appear twice, at input and output, as the original saves them.
    """
    generator = torch.Generator().manual_seed(len(cutoffs))
    vocabulary, width = state_dict[EMBEDDING].shape
    dtype = state_dict[EMBEDDING].dtype

    def normal(*shape: int) -> Tensor:
        return 0.4 * torch.randn(*shape, generator=generator, dtype=dtype)

    clusters = {CLUSTER_WEIGHT: normal(len(cutoffs), width), CLUSTER_BIAS: normal(len(cutoffs))}
    if div_val == 1:
        return state_dict | clusters
    tables: dict[str, Tensor] = {}
    for cluster, (start, stop) in enumerate(pairwise((0, *cutoffs, vocabulary))):
        narrow = width // div_val**cluster
        weight, projection = normal(stop - start, narrow), normal(width, narrow)
        tables |= {
            f"word_emb.emb_layers.{cluster}.weight": weight,
            f"crit.out_layers.{cluster}.weight": weight,
            f"crit.out_layers.{cluster}.bias": normal(stop - start),
            f"word_emb.emb_projs.{cluster}": projection,
            f"crit.out_projs.{cluster}": projection if cluster else normal(width, narrow),
        }
    return state_dict | clusters | tables
