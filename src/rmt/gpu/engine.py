"""The engine's interface, which serves no model yet: stands in for what branch `engine` has here."""

from __future__ import annotations

import torch

from rmt.core.model import SegmentModel


def why_not_served(model: SegmentModel, precision: str, learns: bool = True) -> str:
    """Why the engine does not serve a model on its device, in one line; nothing where it does."""
    return "the engine is still being built"


class Engine:
    """A model with fast layers."""

    def __init__(self, model: SegmentModel, dtype: torch.dtype, learns: bool = True, recompute: bool = False):
        self.model = model

    def begin(self) -> None:
        """Take over the parameters as they are now."""
