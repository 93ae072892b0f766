"""Recall: an input sequence should be generated after a delay that is full of other symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rmt.errors import ConfigError
from rmt.tasks.copy import MAX_LENGTH, SymbolSequence


@dataclass(frozen=True, kw_only=True)
class Recall(SymbolSequence):
    """The input sequence has to be generated after other symbols and the start-to-generate token."""

    sizes: ClassVar[Mapping[str, int]] = {"train": 100_000, "valid": 1_000, "test": 2_000}

    delay: int = field(default=16, metadata={"help": "other symbols between the input and the start token"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.delay <= MAX_LENGTH:
            raise ConfigError(
                f"delay={self.delay} of task {self.name!r} must be at least 0 and at most {MAX_LENGTH}"
            )

    @property
    def shown(self) -> int:
        return self.length + self.delay

    def answer_of(self, source: np.ndarray) -> np.ndarray:
        return source
