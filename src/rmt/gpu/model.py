"""A segment model over the fast backbone."""

from __future__ import annotations

import torch
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.gpu.backbone import FastBackbone
from rmt.nn.axis import Axis


class FastModel(SegmentModel):
    """A segment model whose backbone encodes whole segments in kernels."""

    backbone: FastBackbone

    def axis(self, spans: Spans, state: State, valid: Tensor | None) -> Axis:
        """The plain model's for a ragged batch; for whole segments one that is kept by their spans.

        Its mask is that of a full cache, which all rows share; `present` says how much of it a row has.
        """
        if valid is not None:
            return super().axis(spans, state, valid)
        sees_cache, device = self.config.memory.sees_cache, state.cached.device

        def build() -> Axis:
            positions = torch.arange(spans.keys, device=device)
            return Axis(positions, spans.mask(sees_cache, device=device), positions[:0])

        axis = self.backbone.weights.tables.axis(spans, build)
        return axis if not spans.cache else axis._replace(present=state.cached + spans.queries)
