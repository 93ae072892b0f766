"""A task of your own: the digits of the input, in ascending order.

From the repository root: `rmt train examples.own_task:Sorting --segments 2 --target 0.99`
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rmt.tasks import Examples, Task, next_token

DIGITS, SEPARATOR = 10, 10  # ids 0 to 9 are the digits, 10 is the separator


@dataclass(frozen=True, kw_only=True)
class Sorting(Task):
    """The digits of the input have to be generated in ascending order after a separator."""

    sizes: ClassVar[dict[str, int]] = {"train": 10_000, "valid": 1_000, "test": 1_000}
    length: int = field(default=8, metadata={"help": "digits in the input"})

    @property
    def vocabulary(self) -> int:
        return DIGITS + 1

    @property
    def total_length(self) -> int:
        return 2 * self.length  # input, separator, and all of the answer but its last digit

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        digits = generator.integers(0, DIGITS, (count, self.length))
        separator = np.full((count, 1), SEPARATOR)
        return next_token(np.concatenate([digits, separator, np.sort(digits)], axis=1), answer=self.length)

    def render(self, tokens: Sequence[int]) -> str:
        return " ".join("0123456789|"[token] for token in tokens)
