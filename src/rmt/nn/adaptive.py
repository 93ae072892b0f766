"""Adaptive input embedding and adaptive softmax with the same tables: rare words are scored where they occur.

Words are sorted by frequency. The head scores the words below the first cutoff and, one column each, the tail
clusters between the cutoffs: p(word) = p(cluster) · p(word in cluster).
"""

# B batch · L tokens · V vocabulary · D width · d narrow width · P = B·L positions · K tail clusters

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rmt.errors import ConfigError
from rmt.nn.embedding import apply_gain
from rmt.nn.linear import linear

NO_TARGET = -100  # cross-entropy and its gradient are zero here


class AdaptiveEmbedding(nn.Module):
    """Tokens in: table row times sqrt(D). Hidden states out: log-probabilities by the same tables.

    The clusters start at 0 (the head) and at each of the `cutoffs`. With `div_val` 1 they are slices of one
    table; above, cluster i has its own, D // div_val^i wide, with a projection from and to D.
    """

    def __init__(
        self, vocabulary: int, width: int, cutoffs: tuple[int, ...], div_val: int = 1, gained: bool = False
    ):
        super().__init__()
        check_clusters(vocabulary, width, cutoffs, div_val)
        self.width, self.cutoffs = width, tuple(cutoffs)
        sizes = [stop - start for start, stop in pairwise((0, *cutoffs, vocabulary))]
        self.words = SharedTable(sizes, width) if div_val == 1 else NarrowTables(sizes, width, div_val)
        self.clusters = nn.Linear(width, len(cutoffs))
        self.gain = nn.Parameter(torch.zeros(width)) if gained else None

    def forward(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.words(tokens)
        return embedded

    def logits(self, hidden: Tensor) -> Tensor:
        """Log-probabilities of all words, (B, L, D) -> (B, L, V)."""
        hidden = apply_gain(hidden, self.gain)
        head, *tails = self.words.rows()
        scores = log_softmax(self.score_head(hidden, head))
        parts = [scores[..., : self.cutoffs[0]]]
        for cluster, rows in enumerate(tails, 1):
            within = log_softmax(self.words.score(hidden, cluster, rows))
            parts.append(scores[..., -cluster, None] + within)
        return torch.cat(parts, dim=-1)

    def losses(self, hidden: Tensor, targets: Tensor, capacities: tuple[int, ...] = ()) -> Tensor:
        """Cross-entropy of each position, (B, L, D) and (B, L) -> (B, L).

        With `capacities`, tail i scores exactly capacities[i] positions, so that no shape depends on the
        targets; a target that finds no slot has the loss NaN (see `targets_fit_slots`). Without, it scores
        its members.
        """
        if capacities and len(capacities) != len(self.cutoffs):
            raise ConfigError(f"capacities={capacities} must be {len(self.cutoffs)} numbers, one per cutoff")
        hidden, words = self.output_rows(hidden.flatten(0, 1)), targets.flatten()  # (P, D) and (P,)
        cluster_of = clusters_of(words, self.cutoffs)
        head, *tails = self.words.rows()
        column = words.where(cluster_of == 0, self.cutoffs[0] + len(tails) - cluster_of)
        losses = self.entropy(hidden, column, 0, head)
        for cluster, (rows, start) in enumerate(zip(tails, self.cutoffs, strict=True), 1):
            member = cluster_of == cluster
            slots = choose(member, capacities[cluster - 1 : cluster])
            within = (words - start).where(member, NO_TARGET).index_select(0, slots)
            cluster_losses = self.entropy(hidden.index_select(0, slots), within, cluster, rows)
            unfound = torch.zeros_like(losses).masked_fill(member, math.nan)
            losses = losses + unfound.scatter(0, slots, cluster_losses)
        return losses.view_as(targets)

    def output_rows(self, hidden: Tensor) -> Tensor:
        """Hidden states (P, D) as the tables score them."""
        return apply_gain(hidden, self.gain)

    def start_at(self, frequencies: Tensor) -> None:
        """Let the biases alone predict every word as often as it comes, (V,)."""
        sizes = [len(rows.bias) for rows in self.words.rows()]
        parts = frequencies.split(sizes)
        with torch.no_grad():
            for rows, part in zip(self.words.rows(), parts, strict=True):
                rows.bias.copy_(part.log())
            self.clusters.bias.copy_(torch.stack([part.sum() for part in parts[:0:-1]]).log())

    def entropy(self, hidden: Tensor, targets: Tensor, cluster: int, rows: Rows) -> Tensor:
        """The cross-entropy of positions (P, D) within a cluster, zero where a target is NO_TARGET."""
        scores = self.words.score(hidden, cluster, rows) if cluster else self.score_head(hidden, rows)
        return F.cross_entropy(scores, targets, reduction="none")

    def scored(
        self, hidden: Tensor, targets: Tensor, capacities: tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """No logits, for they would be too many, and losses."""
        return hidden[..., :0], self.losses(hidden, targets, capacities)

    def score_head(self, hidden: Tensor, head: Rows) -> Tensor:
        """Scores of the head's words, then of the tails; tail i is column -i."""
        weight = torch.cat([head.weight, self.clusters.weight])
        return self.words.score(hidden, 0, Rows(weight, torch.cat([head.bias, self.clusters.bias])))


class Rows(NamedTuple):
    """The words of one cluster."""

    weight: Tensor  # (words, d)
    bias: Tensor  # (words,)


class SharedTable(nn.Module):
    """One table as wide as the model; the clusters are its slices."""

    def __init__(self, sizes: list[int], width: int):
        super().__init__()
        self.sizes = sizes
        self.weight = nn.Parameter(torch.empty(sum(sizes), width))
        self.bias = nn.Parameter(torch.zeros(sum(sizes)))

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight) * math.sqrt(self.weight.shape[1])

    def rows(self) -> list[Rows]:
        """The rows of every cluster; one split, so that the table's gradient is made once."""
        weights, biases = self.weight.split(self.sizes), self.bias.split(self.sizes)
        return [Rows(*rows) for rows in zip(weights, biases, strict=True)]

    def score(self, hidden: Tensor, cluster: int, rows: Rows) -> Tensor:
        return linear(hidden, *rows)


class NarrowTables(nn.Module):
    """A table for each cluster, each narrower than the one before, and its projection to the model's width.

    A tail uses one projection in both directions. The head has one for each, as in Transformer-XL.
    """

    def __init__(self, sizes: list[int], width: int, div_val: int):
        super().__init__()
        self.starts = list(accumulate(sizes[:-1], initial=0))
        widths = [width // div_val**cluster for cluster in range(len(sizes))]
        self.tables = nn.ModuleList(map(nn.Linear, widths, sizes))
        self.projections = nn.ModuleList(nn.Linear(narrow, width, bias=False) for narrow in widths)
        self.head_projection = nn.Linear(width, width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, L) -> (B, L, D); every table is read at every position and counts where it has the token."""
        cluster_of = clusters_of(tokens, self.starts[1:])
        embedded = []
        pairs = zip(linears(self.tables), self.projections, strict=True)
        for cluster, (table, project) in enumerate(pairs):
            member = cluster_of == cluster
            rows = F.embedding((tokens - self.starts[cluster]).where(member, 0), table.weight)
            embedded.append(project(rows.masked_fill(~member[..., None], 0.0)))
        total = torch.stack(embedded).sum(0, dtype=self.head_projection.weight.dtype)
        return total * math.sqrt(self.head_projection.out_features)

    def rows(self) -> list[Rows]:
        return [Rows(table.weight, table.bias) for table in linears(self.tables)]

    def score(self, hidden: Tensor, cluster: int, rows: Rows) -> Tensor:
        projection = linears(self.projections)[cluster] if cluster else self.head_projection
        return linear(hidden @ projection.weight, *rows)


def linears(modules: nn.ModuleList) -> Sequence[nn.Linear]:
    """Layers whose kind a list of modules forgets."""
    return cast(Sequence[nn.Linear], modules)


def check_clusters(vocabulary: int, width: int, cutoffs: tuple[int, ...], div_val: int) -> None:
    """Refuse cutoffs that leave a cluster without words, and tables without columns."""
    if not cutoffs or any(start >= stop for start, stop in pairwise((0, *cutoffs, vocabulary))):
        raise ConfigError(
            f"cutoffs={tuple(cutoffs)} must be one or more rising word numbers between 0 and the "
            f"vocabulary's {vocabulary}"
        )
    if div_val < 1:
        raise ConfigError(f"div_val={div_val} must be at least 1; 1 = all words have the model's width")
    if width < div_val ** len(cutoffs):
        raise ConfigError(
            f"div_val={div_val} with {len(cutoffs)} cutoffs leaves nothing of width={width}; it needs "
            f"{div_val ** len(cutoffs)}, or use a smaller div_val"
        )


def clusters_of(words: Tensor, cutoffs: tuple[int, ...] | list[int]) -> Tensor:
    """The cluster of each word: 0 is the head, i the tail that starts at the i-th cutoff."""
    return sum(((words >= cutoff).long() for cutoff in cutoffs), torch.zeros_like(words))


def log_softmax(scores: Tensor) -> Tensor:
    """In float32 at least, also where autocast leaves the scores in bfloat16."""
    return F.log_softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def choose(member: Tensor, capacity: tuple[int, ...]) -> Tensor:
    """The positions of the members; with a capacity, exactly so many positions, members first."""
    if not capacity:
        return member.nonzero().squeeze(1)
    return member.byte().argsort(descending=True, stable=True)[: capacity[0]]


def targets_fit_slots(targets: Tensor, cutoffs: tuple[int, ...], capacities: tuple[int, ...]) -> bool:
    """Whether every tail has a slot for each of its targets; for targets on the host, before the call."""
    counts = torch.bincount(clusters_of(targets.flatten(), cutoffs), minlength=len(cutoffs) + 1)[1:]
    return all(count <= capacity for count, capacity in zip(counts.tolist(), capacities, strict=True))
