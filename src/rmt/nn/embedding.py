"""Token embedding and output layer with one table."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rmt.nn.linear import linear


class TiedEmbedding(nn.Module):
    """Tokens in: table row times sqrt(D). Hidden states out: logits by the same table, plus a bias."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight) * math.sqrt(self.weight.shape[1])

    def logits(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self.weight, self.bias)

    def losses(self, hidden: Tensor, targets: Tensor, capacities: tuple[int, ...] = ()) -> Tensor:
        """Cross-entropy of each position, (B, L, D) and (B, L) -> (B, L); there are no clusters to limit."""
        return self.scored(hidden, targets, capacities)[1]

    def scored(
        self, hidden: Tensor, targets: Tensor, capacities: tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """Logits and losses."""
        logits = self.logits(hidden)
        losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return logits, losses.view_as(targets)
