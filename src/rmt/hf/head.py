"""What follows from hidden states of a wrapped decoder, by its own output layer."""

# B batch · L tokens · D width · V vocabulary

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.utils import ModelOutput

from rmt.core.state import State


class SegmentStates(NamedTuple):
    """What a segment is encoded as, before anything is predicted from it."""

    hidden: Tensor  # (B, L, D)
    state: State


@dataclass
class HiddenStates(ModelOutput):
    """The output of a backbone of any family, of which only the last layer's states are known."""

    last_hidden_state: Tensor | None = None
    past_key_values: Any = None
    hidden_states: Any = None
    attentions: Any = None
    cross_attentions: Any = None
    router_logits: Any = None


class Head:
    """Logits and losses, as a native model's embedding has them; scaled and capped as the class does it."""

    def __init__(self, model: Any):
        self.model, self.dtype = model, model.get_output_embeddings().weight.dtype

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, V)."""
        rows = hidden.to(self.dtype).reshape(-1, 1, hidden.shape[-1])
        known = HiddenStates(last_hidden_state=rows)
        ids = torch.zeros(rows.shape[:2], dtype=torch.long, device=rows.device)
        output = self.model.run_head(
            lambda *_, **__: known, type(self.model).plain.forward, {"input_ids": ids}
        )
        logits: Tensor = output.logits
        return logits.view(*hidden.shape[:-1], logits.shape[-1])

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of each position, (B, L, D) and (B, L) -> (B, L)."""
        losses = F.cross_entropy(self.logits(hidden).flatten(0, 1), targets.flatten(), reduction="none")
        return losses.view_as(targets)
