"""A split as B contiguous lanes of tokens, read segment by segment with the state carried on (section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rmt.errors import ConfigError
from rmt.text.corpus import open_corpus

# B lanes · T tokens of a lane · L tokens of one segment · S segments · K tail clusters

PIECE = 2**20  # tokens of a lane that are counted at a time


class LaneSegment(NamedTuple):
    """The same segment of all lanes; every target is the token that follows."""

    tokens: np.ndarray  # (B, L) int64
    targets: np.ndarray  # (B, L) int64


class Lanes:
    """A stream of tokens laid out as `batch` contiguous lanes of T = floor(tokens / batch) tokens each.

    The remainder, fewer than `batch` tokens at the end of the stream, is dropped. The first token of a lane
    is never a target, so batch · (T - 1) tokens are predicted. Only the segment asked for is loaded.
    """

    def __init__(self, tokens: np.ndarray, batch: int, documents: Sequence[int] = (0,)):
        if batch < 1:
            raise ConfigError(f"batch={batch} must be at least 1")
        if len(tokens) < 2 * batch:
            raise ConfigError(
                f"batch={batch} needs at least {2 * batch} tokens, not {len(tokens)}; use fewer lanes"
            )
        self.batch, self.length = batch, len(tokens) // batch
        self.tokens = tokens[: batch * self.length].reshape(batch, self.length)  # (B, T), a view
        self.starts = np.asarray(documents, dtype=np.int64)

    @classmethod
    def open(cls, folder: str | Path, split: str, batch: int) -> Lanes:
        """The lanes of one split of a prepared corpus."""
        corpus = open_corpus(Path(folder))
        return cls(corpus.tokens(split), batch, corpus.documents(split))

    @property
    def predicted(self) -> int:
        """How many tokens are a target, over all lanes and segments."""
        return self.batch * (self.length - 1)

    def segments(self, length: int) -> int:
        """How many segments of `length` tokens there are; the last may be shorter."""
        if length < 1:
            raise ConfigError(f"segment_length={length} must be at least 1")
        return ceil((self.length - 1) / length)

    def segment(self, index: int, length: int) -> LaneSegment:
        """Segment `index` of all lanes and the tokens that follow, (B, L) each; copies, ready for torch."""
        start, stop = self.span(index, length)
        whole = np.array(self.tokens[:, start : stop + 1], dtype=np.int64)  # (B, L + 1)
        return LaneSegment(whole[:, :-1], whole[:, 1:])

    def documents(self, index: int, length: int) -> np.ndarray:
        """Which lanes have the first token of a document among the tokens of that segment, (B,) bool."""
        start, stop = self.span(index, length)
        lanes = np.arange(self.batch) * self.length
        return np.searchsorted(self.starts, lanes + stop) > np.searchsorted(self.starts, lanes + start)

    def capacities(self, length: int, cutoffs: Sequence[int]) -> tuple[int, ...]:
        """The most targets that each tail cluster of an adaptive softmax has in any segment, (K,).

        Every segment is counted, so every segment of these lanes fits. Rounded up to a multiple of 8, the
        size that matrix units like, but not beyond the B · L positions of a segment.
        """
        most = self.tail_targets(length, cutoffs).max(axis=1)
        return tuple(min(ceil(targets / 8) * 8, self.batch * length) for targets in most.tolist())

    def tail_targets(self, length: int, cutoffs: Sequence[int]) -> np.ndarray:
        """How many targets each tail cluster of an adaptive softmax has in each segment, (K, S)."""
        count, pieces = self.segments(length), max(1, PIECE // length)
        reach = np.zeros((len(cutoffs), count), dtype=np.int64)  # targets at or above each cutoff, (K, S)
        for lane in self.tokens:
            for first in range(0, count, pieces):
                targets = lane[1 + first * length : 1 + (first + pieces) * length]
                edges = np.arange(0, len(targets), length)
                for cutoff, row in zip(cutoffs, reach, strict=True):
                    row[first : first + pieces] += np.add.reduceat(targets >= cutoff, edges, dtype=np.int64)
        return -np.diff(reach, axis=0, append=0)

    def span(self, index: int, length: int) -> tuple[int, int]:
        """Where in its lane a segment starts and ends (exclusive)."""
        count = self.segments(length)
        if not 0 <= index < count:
            raise ConfigError(f"segment={index} does not exist; choose 0 to {count - 1}")
        return index * length, min((index + 1) * length, self.length - 1)
