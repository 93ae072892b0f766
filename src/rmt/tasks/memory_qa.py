"""memory-qa: the facts of a bAbI story lie scattered in a novel; the question comes at the very end.

Novels are distraction without end, so one question can be asked after any number of tokens: training is on
lengths that fit a GPU, and the same questions can be asked a hundred times further away.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from rmt.errors import ConfigError, unknown
from rmt.tasks.babi import MOST_BUCKETS, HashedWordTokenizer, Library, Story, data_files, open_library
from rmt.tasks.scatter import Scattered, Sheet, excerpts
from rmt.tasks.task import Batch, BeyondSplit, Examples, Task, next_token, to_batch

SPLITS = ("train", "valid", "test")
MAX_LENGTH = 1 << 40  # tokens: a hundred thousand times what was ever asked for, and no array overflows


@dataclass(frozen=True, kw_only=True)
class MemoryQA(Task):
    """Facts of a bAbI story scattered in a novel, then a question; answer with one word."""

    name: ClassVar[str] = "memory-qa"
    sizes: ClassVar[dict[str, int]] = {"train": 100_000, "valid": 500, "test": 1_000}
    grows: ClassVar[str] = "length"

    data: str = field(metadata={"help": "folder with babi/ and books/"})
    qa: int = field(default=1, metadata={"help": "bAbI task, 1 to 5"})
    length: int = field(
        default=1024, metadata={"help": "tokens of an example, question included; a story has to fit"}
    )
    buckets: int = field(default=1000, metadata={"help": "tokens for all words that no fact has"})
    held_out: str = field(default="Middlemarch", metadata={"help": "the novels with this name only test"})
    balance: bool = field(
        default=True, metadata={"help": "training: old facts are asked for as often as the newest one"}
    )
    rename: bool = field(
        default=True, metadata={"help": "training: swap names with names, answers with answers"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.qa <= 5:
            raise ConfigError(f"qa={self.qa} of task {self.name!r} must be 1 to 5")
        if not 1 <= self.buckets <= MOST_BUCKETS:
            raise ConfigError(f"buckets={self.buckets} of task {self.name!r} must be 1 to {MOST_BUCKETS:,}")
        if self.length > MAX_LENGTH:
            raise ConfigError(f"length={self.length} of task {self.name!r} must be at most {MAX_LENGTH}")
        if not self.fitting:
            shortest = min(map(needed, self.library.stories["train"]))
            raise ConfigError(
                f"length={self.length} of task {self.name!r} is too short: the shortest story of qa{self.qa} "
                f"has {shortest} tokens"
            )

    @property
    def library(self) -> Library:
        return open_library(self.data, self.qa, self.buckets, self.held_out)

    @property
    def vocabulary(self) -> int:
        return len(self.library.words)

    @property
    def total_length(self) -> int:
        return self.length

    @cached_property
    def fitting(self) -> list[Story]:
        """The training stories that are no longer than an example, those with the newest facts first."""
        stories = [story for story in self.library.stories["train"] if needed(story) <= self.length]
        return sorted(stories, key=lambda story: story.since)

    @cached_property
    def longest(self) -> int:
        return max(needed(story) for split in SPLITS for story in self.library.stories[split])

    @cached_property
    def sheet(self) -> Sheet:
        return Sheet(self.fitting, self.length)

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        chosen = self.choose(generator, count)
        shares = generator.random((count, self.sheet.facts.max()))
        rows = self.sheet.scatter(chosen, shares, self.excerpts(generator, count))
        return next_token(self.renamed(rows, generator), answer=1)

    def choose(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Which of the stories that fit; if balanced, as many of each age."""
        ages = [story.since if self.balance else 0 for story in self.fitting]
        _, first, sizes = np.unique(ages, return_index=True, return_counts=True)
        age = generator.integers(len(first), size=count)
        return first[age] + generator.integers(sizes[age])

    def excerpts(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """As much of the training novels as an example can have, (B, T + 1)."""
        novels = self.library.novels["train"]
        which = generator.choice(len(novels), count, p=weights(novels))
        tokens = np.empty((count, self.length + 1), dtype=np.int64)
        for number, novel in enumerate(novels):
            starts = generator.integers(len(novel), size=np.sum(which == number))
            tokens[which == number] = excerpts(novel, starts, self.length + 1)
        return tokens

    def split(self, name: str, count: int | None = None) -> Batch:
        size = self.sizes.get(name, 0)
        count = size if count is None else count
        if not 1 <= count <= size:
            raise BeyondSplit(count, size, f"of split {name!r} of task {self.name!r} must be 1 to {size}")
        rows = [self.example(name, number).row() for number in range(count)]
        return to_batch(next_token(np.stack(rows), answer=1))

    def fresh(self, size: int, index: int, seed: int) -> Batch:
        if size < 1:
            raise ConfigError(f"size={size} of a batch of task {self.name!r} must be at least 1")
        return to_batch(self.draw(np.random.default_rng([seed, 0, index]), size))

    def example(self, split: str, number: int) -> Scattered:
        """Example `number` of a split, not yet written out: the same story and novel whatever the length."""
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        generator = np.random.default_rng([self.seed, 1 + SPLITS.index(split), number])
        stories, novels = self.library.stories[split], self.library.novels[split]
        if self.length < self.longest:
            raise ConfigError(
                f"length={self.length} of task {self.name!r} is too short for split {split!r}: the longest "
                f"story of qa{self.qa} has {self.longest} tokens"
            )
        story = stories[generator.integers(len(stories))]
        novel = novels[generator.choice(len(novels), p=weights(novels))]
        noise = self.length - needed(story)
        shares = np.sort(generator.random(len(story.facts)))
        start = int(generator.integers(len(novel)))
        return Scattered(story, novel, start, np.floor(shares * (noise + 1)).astype(np.int64), noise)

    def renamed(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Rows (B, T) with names and answers swapped, in each anew; there are few stories to learn from."""
        if not self.rename:
            return rows
        known = len(self.library.words.symbols)
        tables = np.tile(np.arange(known), (len(rows), 1))
        for group in self.library.swaps:
            tables[:, group] = generator.permuted(np.tile(group, (len(rows), 1)), axis=1)
        return np.where(rows < known, np.take_along_axis(tables, np.minimum(rows, known - 1), axis=1), rows)

    def render(self, tokens: Sequence[int]) -> str:
        """Words; those of the novel that no fact has as ~ and their bucket's number."""
        return " ".join(self.library.words.word(int(token)) for token in tokens)

    def tokenizer(self) -> HashedWordTokenizer:
        return HashedWordTokenizer(self.library.words)

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]  # it is read from files, so once
        """Of the bAbI files and the novels."""
        digests = [
            hashlib.sha256(file.read_bytes()).hexdigest()
            for file in data_files(self.data, self.qa, self.held_out)
        ]
        return hashlib.sha256(json.dumps([self.buckets, *digests]).encode()).hexdigest()[:16]


def needed(story: Story) -> int:
    """The tokens of a story with its question."""
    return sum(map(len, story.facts)) + len(story.question)


def weights(novels: list[np.ndarray]) -> np.ndarray:
    """How likely each novel is: every token of all as likely as any other."""
    sizes = np.array([len(novel) for novel in novels])
    return sizes / sizes.sum()
