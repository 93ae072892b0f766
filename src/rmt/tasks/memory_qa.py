"""memory-qa: the facts of a bAbI story lie scattered in a novel; the question comes at the very end.

Novels are distraction without end, so one question can be asked after any number of tokens: training is on
lengths that fit a GPU, and the same questions can be asked a hundred times further away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from rmt.errors import ConfigError, unknown
from rmt.tasks.babi import Library, Story, open_library, words_of
from rmt.tasks.task import Batch, Examples, Task, next_token, to_batch
from rmt.tasks.tokenizer import Speaker, TaskTokenizer

SPLITS = ("train", "valid", "test")
LARGEST_VOCABULARY = 1 << 16
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
        for place, fact in zip([*self.places.tolist(), self.noise], [*self.story.facts, None], strict=True):
            while done < place:
                count = min(place - done, PIECE)
                yield self.excerpt(done, count)
                done += count
            if fact is not None:
                yield fact
        yield self.story.question

    def excerpt(self, done: int, count: int) -> np.ndarray:
        """Tokens of the novel, which starts again behind its end."""
        start = (self.start + done) % len(self.novel)
        if start + count <= len(self.novel):
            return self.novel[start : start + count].astype(np.int64)
        return self.novel.take(np.arange(start, start + count), mode="wrap").astype(np.int64)

    def row(self) -> np.ndarray:
        """What `pieces` gives, at once, and the answer."""
        places = np.repeat(self.places, [len(fact) for fact in self.story.facts])
        text = np.insert(self.excerpt(0, self.noise), places, np.concatenate(self.story.facts))
        return np.concatenate([text, self.story.question, [self.story.answer]])


@dataclass(frozen=True, kw_only=True)
class MemoryQA(Task, TaskTokenizer):
    """Facts of a bAbI story scattered in a novel, then a question; answer with one word."""

    name: ClassVar[str] = "memory-qa"
    sizes: ClassVar[dict[str, int]] = {"train": 100_000, "valid": 500, "test": 1_000}
    grows: ClassVar[str] = "length"

    data: str = field(metadata={"help": "folder with babi/ and books/"})
    qa: int = field(default=1, metadata={"help": "bAbI task, 1 to 5"})
    length: int = field(default=1024, metadata={"help": "tokens of an example, question included"})
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
        if self.buckets < 1 or self.vocabulary > LARGEST_VOCABULARY:
            raise ConfigError(f"buckets={self.buckets} of task {self.name!r} must be 1 to 60000")
        longest = max(needed(story) for split in SPLITS for story in self.library.stories[split])
        if self.length < longest:
            raise ConfigError(
                f"length={self.length} of task {self.name!r} is too short: the longest story of qa{self.qa} "
                f"has {longest} tokens"
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

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        groups = self.library.by_age if self.balance else [self.library.stories["train"]]
        rows = [
            self.scatter(groups[generator.integers(len(groups))], "train", generator).row()
            for _ in range(count)
        ]
        return next_token(self.renamed(np.stack(rows), generator), answer=1)

    def split(self, name: str, count: int | None = None) -> Batch:
        size = self.sizes.get(name, 0)
        count = size if count is None else count
        if not 1 <= count <= size:
            raise ConfigError(f"count={count} of split {name!r} of task {self.name!r} must be 1 to {size}")
        rows = [self.example(name, number).row() for number in range(count)]
        return to_batch(next_token(np.stack(rows), answer=1))

    def fresh(self, size: int, index: int, seed: int) -> Batch:
        if size < 1:
            raise ConfigError(f"size={size} of a batch of task {self.name!r} must be at least 1")
        return to_batch(self.draw(np.random.default_rng([seed, 0, index]), size))

    def example(self, split: str, number: int) -> Scattered:
        """Example `number` of a split: the same story and novel whatever the length, not yet written out."""
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        generator = np.random.default_rng([self.seed, 1 + SPLITS.index(split), number])
        return self.scatter(self.library.stories[split], split, generator)

    def scatter(self, stories: list[Story], split: str, generator: np.random.Generator) -> Scattered:
        """One of some stories at random, its facts at random places of a novel of a split, in their order."""
        novels = self.library.novels[split]
        story = stories[generator.integers(len(stories))]
        sizes = np.array([len(novel) for novel in novels])
        novel = novels[generator.choice(len(novels), p=sizes / sizes.sum())]
        noise = self.length - needed(story)
        shares = np.sort(generator.random(len(story.facts)))
        start = int(generator.integers(len(novel)))
        return Scattered(story, novel, start, np.floor(shares * (noise + 1)).astype(np.int64), noise)

    def renamed(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Rows (B, T) with names and answers swapped, in each anew; there are few stories to learn from."""
        if not self.rename:
            return rows
        tables = np.tile(np.arange(self.vocabulary), (len(rows), 1))
        for group in self.library.swaps:
            tables[:, group] = generator.permuted(np.tile(group, (len(rows), 1)), axis=1)
        return np.take_along_axis(tables, rows, axis=1)

    def render(self, tokens: Sequence[int]) -> str:
        """Words; those of the novel that no fact has as ~ and their bucket's number."""
        return " ".join(self.library.words.word(int(token)) for token in tokens)

    def encode(self, text: str) -> list[int]:
        return [self.library.words.id_of(word) for word in words_of(text)]

    def whole(self, text: bytes) -> int:
        return 1 + max(text.rfind(space) for space in (b" ", b"\n"))

    def speaker(self) -> Speaker:
        return lambda id: f"{self.library.words.word(id)} "


def needed(story: Story) -> int:
    """The tokens of a story with its question."""
    return sum(map(len, story.facts)) + len(story.question)
