"""From short to long: documents are cut to few segments at first, and whole before half of the steps."""

# B batch · T tokens

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch


class SegmentCurriculum(NamedTuple):
    """How many segments of a text a step trains on; it depends on nothing but the step."""

    segments: int  # all of them
    steps: int
    segment_length: int
    prefix: int  # special tokens before a text
    suffix: int  # and behind it
    first: int = 1  # segments at the start
    per_token: Sequence[str] = ("input_ids", "attention_mask")  # inputs that are cut; labels are not

    def segments_at(self, step: int) -> int:
        """`first`, one more after each of as many equal parts of half the steps, and at last all of them."""
        return min(self.segments, self.first + 2 * self.segments * step // self.steps)

    def cut(self, inputs: dict[str, Any], step: int) -> dict[str, Any]:
        """A padded batch whose texts have the segments of this step at most."""
        exists = inputs["attention_mask"].bool()  # (B, T)
        lengths = exists.sum(1)
        limit = self.prefix + self.segments_at(step) * self.segment_length + self.suffix
        if int(lengths.max()) <= limit:
            return inputs
        columns = torch.arange(limit, device=exists.device).expand(len(exists), -1)
        skipped = (lengths - limit).clamp(min=0)[:, None] * (columns >= limit - self.suffix)
        order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)  # (B, T) existing places first
        source = order.gather(1, (columns + skipped).clamp(max=exists.shape[1] - 1))
        cut = {name: inputs[name].gather(1, source) for name in self.per_token if name in inputs}
        cut["attention_mask"] = (columns < lengths[:, None]).to(inputs["attention_mask"].dtype)
        return {**inputs, **cut}
