"""Associative retrieval: N key-value pairs, one of the keys; produce the value of that key (section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase, digits
from typing import ClassVar

import numpy as np

from rmt.errors import ConfigError
from rmt.tasks.task import Examples, Task, next_token

CHARACTERS = digits + "|" + ascii_lowercase  # values 0..9, separator 10, keys 11..36: index = token id
SEPARATOR = len(digits)
FIRST_KEY = SEPARATOR + 1


@dataclass(frozen=True, kw_only=True)
class Retrieval(Task):
    """Distinct letters with distinct digits, one letter again, a separator; answer with its digit."""

    unique: ClassVar[bool] = True
    grows: ClassVar[str] = "pairs"
    begins: ClassVar[int] = 2  # four pairs alone teach "one of the four values" (docs/learning.md)
    question: ClassVar[int] = 2  # the letter asked for and the separator
    enlarge: ClassVar[str] = "more pairs"

    pairs: int = field(default=4, metadata={"help": "key-value pairs in the input"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.pairs <= len(digits):
            raise ConfigError(
                f"pairs={self.pairs} of task {self.name!r} must be 1 to 10: values are different digits"
            )

    @property
    def vocabulary(self) -> int:
        return len(CHARACTERS)

    @property
    def total_length(self) -> int:
        return 2 * self.pairs + 2

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        keys = FIRST_KEY + distinct(generator, count, len(ascii_lowercase), self.pairs)
        values = distinct(generator, count, len(digits), self.pairs)
        query = generator.integers(0, self.pairs, (count, 1))
        return recall(keys, values, query)

    def render(self, tokens: Sequence[int]) -> str:
        return " ".join(CHARACTERS[token] for token in tokens)


def recall(keys: np.ndarray, values: np.ndarray, query: np.ndarray) -> Examples:
    """The rows k1 v1 … kN vN kq | vq of keys and values (B, N) and the place of the asked one (B, 1)."""
    pairs = np.stack([keys, values], axis=2).reshape(len(keys), -1)
    asked, answer = (np.take_along_axis(of, query, axis=1) for of in (keys, values))
    separator = np.full_like(asked, SEPARATOR)
    return next_token(np.concatenate([pairs, asked, separator, answer], axis=1), answer=1)


def distinct(generator: np.random.Generator, count: int, population: int, chosen: int) -> np.ndarray:
    """Rows of `chosen` different numbers below `population`: the ranks of random numbers."""
    return generator.random((count, population)).argsort(axis=1)[:, :chosen]
