"""Chunk-and-average: every segment of a text is answered alone, and the mean of the answers is the answer.

It is what memory has to be better than: nothing is carried from one segment to the next.
"""

# B batch · K numbers of an answer

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rmt.hf.segments import TextSegment, padding_id, plan, spread


class MeanAnswer(nn.Module):
    """A model that answers once, without memory, asked about each segment."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def settings(self) -> Any:
        return self.model.settings

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Any:
        """Mean logits (B, K) of texts (B, T), and their loss."""
        from transformers.loss.loss_utils import ForSequenceClassificationLoss
        from transformers.modeling_outputs import SequenceClassifierOutput

        inputs = {"input_ids": input_ids, "token_type_ids": token_type_ids}
        cutting = plan(
            {name: tensor for name, tensor in inputs.items() if tensor is not None},
            None if attention_mask is None else attention_mask.bool(),
            self.settings,
            self.model.layout,
            padding_id(self.config),
        )
        answers = torch.stack([self.answers(segment) for segment in cutting.segments])
        counts = torch.stack([segment.alive for segment in cutting.segments]).sum(0)  # (B,)
        logits = answers.sum(0) / counts[:, None]
        loss = None if labels is None else ForSequenceClassificationLoss(labels, logits, self.config)
        output: Any = SequenceClassifierOutput
        return output(loss=loss, logits=logits)

    def answers(self, segment: TextSegment) -> Tensor:
        """The logits (B, K) of one segment of each text; zero where a text has no such segment."""
        present = segment.present
        part = segment if present is None else segment.of_present(present)
        logits: Tensor = self.model(**part.inputs, attention_mask=part.exists.long()).logits
        return logits if present is None else spread(logits, present, len(segment.alive))
