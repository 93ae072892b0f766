"""Reverse: an input sequence should be generated in a reverse order (section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.tasks.copy import SymbolSequence


@dataclass(frozen=True, kw_only=True)
class Reverse(SymbolSequence):
    """The input sequence has to be generated backwards after the start-to-generate token."""

    def answer_of(self, source: np.ndarray) -> np.ndarray:
        return source[:, ::-1]
