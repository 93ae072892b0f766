"""Copy: an input sequence should be replicated twice after a special start-to-generate token (section 4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from rmt.errors import ConfigError
from rmt.tasks.task import Examples, Task, next_token

START = 1  # start-to-generate; 0 is the padding of the original data and never drawn
FIRST_SYMBOL = 2

SHORT, SHORT_SYMBOLS, LONG_SYMBOLS = 24, 10, 8  # what the published runs used: 10 up to length 24, else 8
MAX_LENGTH = 1 << 24  # symbols: one example of copy has 0.4 GB
MAX_SYMBOLS = 1_000_000  # more than any vocabulary of a language has


@dataclass(frozen=True, kw_only=True)
class SymbolSequence(Task):
    """A source of random symbols, the start token, then an answer made of the source: X, 1, answer(X)."""

    grows: ClassVar[str] = "length"

    length: int = field(default=SHORT, metadata={"help": "symbols in the input sequence"})
    symbols: int | None = field(
        default=None, metadata={"help": "different symbols; none = 10 up to length 24, 8 above"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = {"length": (self.length, 1, MAX_LENGTH), "symbols": (self.alphabet, 2, MAX_SYMBOLS)}
        for name, (value, low, high) in bounds.items():
            if not low <= value <= high:
                raise ConfigError(
                    f"{name}={value} of task {self.name!r} must be at least {low} and at most {high}"
                )

    @abstractmethod
    def answer_of(self, source: np.ndarray) -> np.ndarray:
        """What has to be generated after the start token, (B, length) -> (B, answer)."""

    @property
    def alphabet(self) -> int:
        """How many different symbols a source is made of."""
        if self.symbols is not None:
            return self.symbols
        return SHORT_SYMBOLS if self.length <= SHORT else LONG_SYMBOLS

    @property
    def vocabulary(self) -> int:
        return FIRST_SYMBOL + self.alphabet

    @property
    def shown(self) -> int:
        """Symbols before the start token: the source, and what a task puts behind it."""
        return self.length

    @property
    def total_length(self) -> int:
        return self.shown + self.answer_of(np.zeros((1, self.length))).shape[1]

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        return self.examples_of(generator.integers(FIRST_SYMBOL, self.vocabulary, (count, self.shown)))

    def with_length(self, length: int) -> SymbolSequence:
        return replace(self, length=length, symbols=self.alphabet)

    def examples_of(self, symbols: np.ndarray) -> Examples:
        """The examples of the symbols before the start token, (B, shown)."""
        answer = self.answer_of(symbols[:, : self.length])
        start = np.full((len(symbols), 1), START)
        return next_token(np.concatenate([symbols, start, answer], axis=1), answer.shape[1])

    def render(self, tokens: Sequence[int]) -> str:
        """Symbols as numbers from 0, the start token as `|`, padding as `.`."""
        others = {0: ".", START: "|"}
        return " ".join(others.get(int(token)) or str(int(token) - FIRST_SYMBOL) for token in tokens)


@dataclass(frozen=True, kw_only=True)
class Copy(SymbolSequence):
    """The input sequence has to be generated twice after the start-to-generate token."""

    def answer_of(self, source: np.ndarray) -> np.ndarray:
        return np.concatenate([source, source], axis=1)
