"""A split is a region of example space: what an example is decides which split may hold it.

Whoever draws it, whenever and with whatever seed, an example hashes to the same region. So an endless
stream of training examples can never contain one of the validation or test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import gcd
from typing import NamedTuple

import numpy as np

from rmt.errors import unknown

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Region(NamedTuple):
    """The examples a split may hold: hashes that are `start` to `stop` (exclusive) modulo `modulus`."""

    split: str
    start: int
    stop: int
    modulus: int

    @property
    def share(self) -> float:
        """The fraction of example space that lies in this region."""
        return (self.stop - self.start) / self.modulus

    def holds(self, hashes: np.ndarray) -> np.ndarray:
        remainder = hashes % np.uint64(self.modulus)
        return (remainder >= self.start) & (remainder < self.stop)


def region(sizes: Mapping[str, int], split: str) -> Region:
    """The region of one split, as large a part of example space as the split is of all examples."""
    if split not in sizes:
        raise unknown("split", split, sizes)
    unit = gcd(*sizes.values())
    names = list(sizes)
    start = sum(sizes[name] // unit for name in names[: names.index(split)])
    return Region(split, start, start + sizes[split] // unit, sum(sizes.values()) // unit)


def hash_rows(tokens: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each row, (n, T) -> (n,): a random odd multiple of every column, summed and mixed."""
    return mix(tokens.astype(np.int64, copy=False).view(np.uint64) @ multipliers(tokens.shape[1]))


@cache
def multipliers(columns: int) -> np.ndarray:
    """One odd number per column; they define the splits, so they must never change."""
    return mix(np.arange(1, columns + 1, dtype=np.uint64) * GOLDEN) | np.uint64(1)


def mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input moves every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
