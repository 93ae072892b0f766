"""Dropout by counting: whether a number is kept follows from its place, and no generator has a state.

So the backward pass, a segment that is computed again and a resumed run see the same masks, and nothing has
to be stored. The key of an update follows from the run's seed and the update's number.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

WORD = 2**32
SITES = 1 << 10  # places with a mask of their own in one segment
SEGMENT_STEP = 2 * SITES  # from a site to the same one of the next segment
DISTANCES, INPUT, OUTPUT = 0, 1, 2  # of the backbone: relative positions, what goes in, what comes out
ATTENTION, INNER, FEED_FORWARD = 3, 4, 5  # of the first layer; each layer has three
PER_LAYER = 3
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, as in splitmix64


class Drop(NamedTuple):
    """One mask: numbers are zero with a probability, the others are scaled up so that the mean stays."""

    keys: Tensor  # (S, 2) int64: two words of 32 bits of every seed
    probability: float
    site: int

    @property
    def threshold(self) -> int:
        """Hashes below it are dropped."""
        return min(WORD - 1, round(self.probability * WORD))

    @property
    def scale(self) -> float:
        return 1.0 / (1.0 - self.probability)


class Dropout(NamedTuple):
    """The masks of one segment."""

    keys: Tensor
    probability: float
    segment: int  # its number among all calls of an update

    def at(self, site: int, layer: int = 0) -> Drop | None:
        """The mask of a place in the segment, or none where nothing is dropped."""
        if not self.probability:
            return None
        number = self.segment * SITES + site + PER_LAYER * layer
        return Drop(self.keys, self.probability, 2 * number + 3)  # odd, and not 1: kernels are compiled once


def update_keys(seed: int, step: int, process: int = 0) -> Tensor:
    """The two words that make the masks of an update, (2,)."""
    word = mixed_64((mixed_64(seed + GOLDEN) + step + process * GOLDEN) % 2**64)
    return torch.tensor([word % WORD, word // WORD])


def mixed_64(word: int) -> int:
    """The output function of splitmix64: every bit of the result depends on every bit of the word."""
    mask = 2**64 - 1
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)
