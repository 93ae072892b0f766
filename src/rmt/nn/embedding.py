"""Token embedding and output layer with one table."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rmt.nn.linear import linear

GAIN_SCALE = 5.0  # of an output gain: how many times as fast as other vectors it learns


class TiedEmbedding(nn.Module):
    """Tokens in: table row times sqrt(D). Hidden states out: logits by the same table, plus a bias.

    Where the output is `gained`, hidden states are first multiplied by a learned gain that starts at zero.
    """

    def __init__(self, vocabulary: int, width: int, gained: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.gain = nn.Parameter(torch.zeros(width)) if gained else None

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight) * math.sqrt(self.weight.shape[1])

    def logits(self, hidden: Tensor) -> Tensor:
        return linear(apply_gain(hidden, self.gain), self.weight, self.bias)

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

    def start_at(self, frequencies: Tensor) -> None:
        """Let the bias alone predict every token as often as it comes, (V,)."""
        with torch.no_grad():
            self.bias.copy_(frequencies.log())


def apply_gain(hidden: Tensor, gain: Tensor | None) -> Tensor:
    """Hidden states (…, D) as the output layer gets them."""
    return hidden if gain is None else hidden * (GAIN_SCALE * gain)
