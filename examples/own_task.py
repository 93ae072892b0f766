"""A task of your own: the digits of the input, in ascending order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rmt.tasks import Examples, Task, next_token

SYMBOLS = "0123456789|"  # index = token id; the last one separates input and answer


@dataclass(frozen=True, kw_only=True)
class Sorting(Task):
    """The digits of the input have to be generated in ascending order after a separator."""

    sizes: ClassVar[dict[str, int]] = {"train": 10_000, "valid": 1_000, "test": 1_000}
    grows: ClassVar[str] = "length"  # what a curriculum over length changes
    length: int = field(default=8, metadata={"help": "digits in the input"})

    @property
    def vocabulary(self) -> int:
        return len(SYMBOLS)

    @property
    def total_length(self) -> int:
        return 2 * self.length  # the last digit of the answer is only ever a target

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        digits = generator.integers(0, 10, (count, self.length))
        separator = np.full((count, 1), 10)
        return next_token(np.concatenate([digits, separator, np.sort(digits)], axis=1), answer=self.length)

    def render(self, tokens: Sequence[int]) -> str:
        return " ".join(SYMBOLS[token] for token in tokens)


# To train it, in the repository's root: rmt train examples.own_task:Sorting --segments 2 --target 0.99
