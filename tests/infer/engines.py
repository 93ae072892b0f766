"""A stand-in for the GPU's engine: a copy of the model that knows its parameters as they were at `begin`."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from rmt import SegmentModel


class CopyingEngine:
    """The plain layers with parameters of their own."""

    def __init__(self, model: SegmentModel, dtype: torch.dtype, learns: bool = True, recompute: bool = False):
        self.plain, self.model = model, deepcopy(model)

    @torch.no_grad()
    def begin(self) -> None:
        pairs = zip(self.model.parameters(), self.plain.parameters(), strict=True)
        for mine, theirs in pairs:
            mine.copy_(theirs)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model is served, by the stand-in."""
    monkeypatch.setattr("rmt.infer.work.why_not_served", lambda model, precision, learns: "")
    monkeypatch.setattr("rmt.infer.work.Engine", CopyingEngine)
