"""Quadratic equations: an equation, its solution with discriminant, and an answer (section 4, appendix A.3).

Six slots of 30 characters: [equation][canonical form][discriminant][x1][x2][answer]. Where the paper and its
data leave a choice, or have a flaw, this file decides:
- The loss covers exactly the five solution slots, padding included: targets 29 to 178. The original code
  leaves out target 29, the first character of the canonical form, and counts 179, which follows the sequence.
- The answer is the whole last slot. The original metric misses its first character, and what it counts after
  the sequence is left out, since nothing trains it: `original_answer`.
- Equations without real roots have D < 0. The original lets the boundary c = b²/4 through.
- Terms are written as in the original data: a coefficient of 1 or -1 before x is its sign alone, and a term
  of coefficient 0 is left out. The discriminant writes every number.
- A double root has two equal steps x1 and x2, and an answer of one number.
Fixed splits hold every equation once, which leaves slightly more than a fifth of them without roots. They are
shuffled, as the original's: repeats are left out while drawing, so what is common comes early.

Version 1 wrote `+0*x`, `+1*x` and `+0`. Its splits were in the order of drawing (without roots: .187 of the
first fifth of the test set, .262 of the last), and its original metric counted a position nothing trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmt.tasks.regions import Region
from rmt.tasks.task import Batch, Examples, Task

CHARACTERS = " ?0123456789+-*/^=()xD;,"  # index = token id; 0 is padding, 1 is not used by the original data
IDS = np.zeros(128, dtype=np.int64)
IDS[[ord(character) for character in CHARACTERS]] = np.arange(len(CHARACTERS))

SLOT = 30
TOTAL = 6 * SLOT
ROOTLESS = 0.2  # share of equations without real roots
LARGEST_ROOT, LARGEST_FACTOR = 100, 10
LARGEST_B, LARGEST_C = 200, 10_000  # of equations without roots, exclusive


class Steps(NamedTuple):
    """The six slots of one example, as text; without real roots the last three are empty."""

    equation: str
    canonical: str
    discriminant: str
    first: str = ""
    second: str = ""
    answer: str = ""


@dataclass(frozen=True, kw_only=True)
class Quadratic(Task):
    """Solve a quadratic equation step by step, one step of 30 characters per slot."""

    version: ClassVar[int] = 2
    sizes: ClassVar[dict[str, int]] = {"train": 100_000, "valid": 10_000, "test": 20_000}
    unique: ClassVar[bool] = True
    metric: ClassVar[str] = "sequence_accuracy"
    original_exact: ClassVar[bool] = True

    @property
    def vocabulary(self) -> int:
        return len(CHARACTERS)

    @property
    def total_length(self) -> int:
        return TOTAL

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        return next_characters(encode([solve(*row) for row in draw_coefficients(generator, count).tolist()]))

    def fixed(self, home: Region, count: int) -> Examples:
        """The first `count` examples of the fixed set of a region, in random order."""
        return next_characters(shuffled(self, home)[:count].astype(np.int64))

    def original_answer(self, batch: Batch) -> Tensor:
        window = torch.arange(TOTAL, device=batch.loss_mask.device) >= TOTAL - SLOT
        return window & batch.loss_mask

    def render(self, tokens: Sequence[int]) -> str:
        text = "".join(CHARACTERS[token] for token in tokens)
        slots = [text[start : start + SLOT].rstrip() for start in range(0, len(text), SLOT)]
        return "; ".join(slots).rstrip("; ")


def solve(factor: int, b: int, c: int) -> Steps:
    """The steps that solve factor · (x² + b·x + c) = 0; real roots have to be whole numbers."""
    return Steps(write_equation(factor, b, c), *solution(b, c))


@lru_cache(maxsize=1 << 15)  # only 19,900 pairs of roots exist, so nearly all of them are soon remembered
def solution(b: int, c: int) -> tuple[str, ...]:
    """The steps after the equation, which are the same for every factor."""
    discriminant = b * b - 4 * c
    canonical = write_equation(1, b, c)
    calculation = f"D={abs(b)}^2-4*1*{c}={discriminant}"
    if discriminant < 0:
        return canonical, calculation
    root = isqrt(discriminant)
    low, high = (-b - root) // 2, (-b + root) // 2
    return (
        canonical,
        f"{calculation}={root}^2",
        f"x=({-b}-{root})/2={low}",
        f"x=({-b}+{root})/2={high}",
        f"{low},{high}" if low < high else f"{low}",
    )


def write_equation(factor: int, b: int, c: int) -> str:
    square = f"{before_x(factor)}x^2".removeprefix("+")
    linear = f"{before_x(factor * b)}x" if b else ""
    constant = signed(factor * c) if c else ""
    return f"{square}{linear}{constant}=0"


def before_x(coefficient: int) -> str:
    """The sign and what is multiplied, which is not written if it is 1."""
    return f"{signed(coefficient)}*" if abs(coefficient) > 1 else "-" if coefficient < 0 else "+"


def signed(number: int) -> str:
    return f"{number}" if number < 0 else f"+{number}"  # several times faster than the format `+d`


def draw_coefficients(generator: np.random.Generator, count: int) -> np.ndarray:
    """Factor, b and c of each equation, (B, 3), distributed as in the original data.

    Roots are uniform numbers cut to whole ones and factors rounded, so 0 is twice as likely and ±1, ±10 half.
    """
    factor = np.rint(generator.uniform(1, LARGEST_FACTOR, count)).astype(np.int64)
    factor *= generator.choice([-1, 1], count)
    first, second = generator.uniform(-LARGEST_ROOT, LARGEST_ROOT, (2, count)).astype(np.int64)
    rootless_b = generator.integers(0, LARGEST_B, count)
    rootless_c = generator.integers(rootless_b**2 // 4 + 1, LARGEST_C)
    rootless = generator.random(count) < ROOTLESS
    b = np.where(rootless, rootless_b, -(first + second))
    c = np.where(rootless, rootless_c, first * second)
    return np.stack([factor, b, c], axis=1)


def encode(rows: Sequence[Steps]) -> np.ndarray:
    """The token ids (B, T) of the slots, each filled up to 30 characters."""
    text = "".join(step.ljust(SLOT) for steps in rows for step in steps)
    return IDS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)].reshape(len(rows), TOTAL)


def next_characters(tokens: np.ndarray) -> Examples:
    """Examples that predict the next character of each row (B, T); nothing but padding follows the last."""
    targets = np.zeros_like(tokens)
    targets[:, :-1] = tokens[:, 1:]
    return Examples(tokens, targets, targets_of_slots(1, len(tokens)), targets_of_slots(5, len(tokens)))


def targets_of_slots(first: int, count: int) -> np.ndarray:
    """Where the characters of slot `first` and all later slots are the target, (B, T): a position earlier."""
    position = np.arange(TOTAL)
    mask = (position >= first * SLOT - 1) & (position < TOTAL - 1)
    return np.tile(mask, (count, 1))


@lru_cache(maxsize=3)  # the three splits, 23 MB
def shuffled(task: Quadratic, home: Region) -> np.ndarray:
    """The tokens (B, T) of a whole split in random order, so that its beginning is like the rest of it."""
    tokens = Task.fixed(task, home, task.sizes[home.split]).tokens.astype(np.uint8)
    generator = np.random.default_rng([task.seed, list(task.sizes).index(home.split), 1])
    return generator.permutation(tokens)
