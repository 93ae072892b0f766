"""What follows from hidden states of a wrapped decoder, by its own output layer."""

# B batch · L tokens · D width · V vocabulary

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import functional as F

from rmt.core.state import State


class SegmentStates(NamedTuple):
    """What a segment is encoded as, before anything is predicted from it."""

    hidden: Tensor  # (B, L, D)
    state: State


class Head:
    """Logits and losses, as a native model's embedding has them."""

    def __init__(self, model: Any):
        self.layer = model.get_output_embeddings()

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, V)."""
        logits: Tensor = self.layer(hidden.to(self.layer.weight.dtype))
        return logits

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of each position, (B, L, D) and (B, L) -> (B, L)."""
        losses = F.cross_entropy(self.logits(hidden).flatten(0, 1), targets.flatten(), reduction="none")
        return losses.view_as(targets)
