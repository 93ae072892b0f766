"""A story's facts at places of a novel: one example read piece by piece, or many written at once."""

# S stories · W tokens of the longest story · B rows · T tokens of an example, without the answer

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rmt.tasks.babi import Story

PIECE = 1 << 14  # tokens of a novel at a time


class Scattered(NamedTuple):
    """One example, not yet written out: a story, and where in which novel it lies."""

    story: Story
    novel: np.ndarray  # ids
    start: int  # first token of the novel
    places: np.ndarray  # (facts,) rising: tokens of the novel before each fact
    noise: int  # tokens of the novel in all

    def pieces(self) -> Iterator[np.ndarray]:
        """The ids in order, without the answer: the novel in short pieces, and the facts between them."""
        done = 0
        for offset, fact in zip([*self.places.tolist(), self.noise], [*self.story.facts, None], strict=True):
            while done < offset:
                count = min(offset - done, PIECE)
                yield excerpts(self.novel, np.array([self.start + done]), count)[0]
                done += count
            if fact is not None:
                yield fact
        yield self.story.question

    def row(self) -> np.ndarray:
        """What `pieces` gives, at once, and the answer; memory for all of it is asked for first."""
        size = self.noise + sum(map(len, self.story.facts)) + len(self.story.question) + 1
        row, done = np.empty(size, dtype=np.int64), 0
        for piece in self.pieces():
            row[done : done + len(piece)] = piece
            done += len(piece)
        row[done] = self.story.answer
        return row


class Sheet:
    """Stories as one array, to be scattered many at a time: a GPU learns from thousands in a second."""

    def __init__(self, stories: list[Story], length: int):
        rows = [np.concatenate([*story.facts, story.question, [story.answer]]) for story in stories]
        sizes = [[*map(len, story.facts), len(story.question) + 1] for story in stories]
        self.filled = np.arange(max(map(len, rows))) < np.array([[len(row)] for row in rows])  # (S, W)
        self.tokens, self.parts = np.zeros((2, *self.filled.shape), dtype=np.int64)
        self.tokens[self.filled] = np.concatenate(rows)
        self.parts[self.filled] = np.concatenate([np.repeat(np.arange(len(size)), size) for size in sizes])
        self.facts = np.array([len(story.facts) for story in stories])
        self.noise = length + 1 - self.filled.sum(1)

    def scatter(self, stories: np.ndarray, shares: np.ndarray, novel: np.ndarray) -> np.ndarray:
        """Rows (B, T + 1) of `stories` (B,) in excerpts of a novel (B, T + 1).

        `shares` (B, facts) says, by its smallest numbers, how much of the novel comes before each fact.
        """
        filled, noise = self.filled[stories], self.noise[stories, None]
        places = np.floor(rising(shares, self.facts[stories]) * (noise + 1)).astype(np.int64)
        before = np.take_along_axis(np.minimum(places, noise), self.parts[stories], axis=1)  # (B, W)
        columns = np.arange(filled.shape[1]) + before
        taken = np.zeros(novel.shape, dtype=bool)
        taken[np.nonzero(filled)[0], columns[filled]] = True
        rows = np.take_along_axis(novel, np.cumsum(~taken, axis=1) - 1, axis=1)
        rows[taken] = self.tokens[stories][filled]
        return rows


def rising(shares: np.ndarray, facts: np.ndarray) -> np.ndarray:
    """The first `facts` (B,) shares of each row in order; those behind them are one, for the question."""
    ones = np.ones((len(shares), 1))
    used = np.arange(shares.shape[1]) < facts[:, None]
    return np.sort(np.concatenate([np.where(used, shares, 1.0), ones], axis=1), axis=1)


def excerpts(novel: np.ndarray, starts: np.ndarray, count: int) -> np.ndarray:
    """`count` tokens of a novel from each of some places on; behind its end it starts again."""
    return novel.take(starts[:, None] + np.arange(count), mode="wrap").astype(np.int64)
