"""A task is data plus a version: sequences, the targets under the loss, and the answer the metric counts.

A new task says how large its vocabulary is, how long a sequence is and how to draw examples. Fixed splits,
the endless training stream and the command line follow from that (section 4, Algorithmic Tasks). What else
a run asks of a task has an answer here that fits sequences; a task of endless text gives others.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmt.errors import ConfigError
from rmt.tasks.regions import Region, hash_rows, region
from rmt.tasks.segments import Batch, segment_length
from rmt.tasks.tokenizer import SymbolTokenizer, TaskTokenizer

# B batch · T tokens of the whole sequence, all segments together

ROUND = 256  # examples of the split expected from one round of drawing; part of what defines the fixed splits
COUNTED = 256  # examples that say how often each id is a target, and how many targets there are
PATIENCE = 20  # rounds without a new example before the split counts as exhausted


class Examples(NamedTuple):
    """Sequences as they are drawn, one row per example."""

    tokens: np.ndarray  # (B, T) int64
    targets: np.ndarray  # (B, T) int64
    loss_mask: np.ndarray  # (B, T) bool
    answer: np.ndarray  # (B, T) bool, the positions the metric counts, all of them under the loss

    def select(self, rows: np.ndarray) -> Examples:
        return Examples(*(column[rows] for column in self))


class BeyondSplit(ConfigError):
    """More examples of a split than it has, or none."""

    def __init__(self, count: int, size: int, where: str):
        super().__init__(f"count={count} {where}")
        self.count, self.size, self.where = count, size, where

    def said_of(self, field: str, value: int) -> ConfigError:
        """The same of the field that a user has set."""
        return ConfigError(f"{field}={value} {self.where}")


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What to learn from: sequences that end, unless a task says otherwise."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    sizes: ClassVar[Mapping[str, int]] = {"train": 100_000, "valid": 5_000, "test": 10_000}
    unique: ClassVar[bool] = False  # whether a fixed split holds every example once
    metric: ClassVar[str] = "accuracy"  # what results are judged by: accuracy or sequence_accuracy
    original_exact: ClassVar[bool] = False  # the original metric: whole answers instead of characters
    grows: ClassVar[str] = ""  # the option that makes inputs longer, if there is one
    begins: ClassVar[int] = 0  # what that option begins at where short inputs have to come first; 0 = nowhere
    question: ClassVar[int] = 0  # tokens at the end that ask about all the others; 0 = nothing does
    enlarge: ClassVar[str] = "a longer length"  # what gives this task more different examples

    layout: ClassVar[str] = "sequences"  # how it is laid out to train on and to measure: sequences or lanes
    sign: ClassVar[int] = 1  # of its metric: 1 if a higher value is better, -1 if a lower one is
    generates: ClassVar[bool] = True  # whether answers are generated to be measured
    schedules: ClassVar[tuple[str, ...]] = ("sequence", "chunked", "sliding")  # of BPTT that go with it
    # settings of `task` that have an effect, beside those that are fields of the class
    settings: ClassVar[tuple[str, ...]] = ("segments", "length", "source", "shuffle")
    without_effect: ClassVar[tuple[str, ...]] = ("train.evaluate_batch", "train.evaluate_cache", "scale")
    older: ClassVar[Mapping[str, Any]] = {}  # options that make of it what it was in release 0.1.0

    seed: int = field(default=0, metadata={"help": "chooses the examples of the fixed splits"})

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name", cls.__name__.lower())

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ConfigError(f"seed={self.seed} of task {self.name!r} must be at least 0")

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many token ids there are; ids are 0 to vocabulary - 1."""

    @property
    @abstractmethod
    def total_length(self) -> int:
        """T, the tokens of one sequence over all its segments."""

    @property
    def losses(self) -> int:
        """How many tokens of a sequence are under the loss: of some, in the mean, and at least one."""
        drawn = self.draw(np.random.default_rng(0), COUNTED)
        return max(1, round(float(drawn.loss_mask.sum()) / COUNTED))

    @abstractmethod
    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        """`count` independent examples."""

    @property
    def fingerprint(self) -> str:
        """What the data on disk must share to be the same to a run; nothing where all is drawn."""
        return ""

    def tokens_per_segment(self, segments: int) -> int:
        """The length of a segment if a sequence is cut into so many."""
        return segment_length(self.total_length, segments)

    def tokenizer(self) -> TaskTokenizer:
        """Text to the task's ids and back: in the symbols it is shown with, or in plain ids."""
        return SymbolTokenizer.of([self.render([id]) for id in range(self.vocabulary)])

    def samples(self, split: str, most: int) -> int | None:
        """How many examples of a split are measured while training; none = all there is."""
        return min(most, self.sizes[split])

    def require_splits(self, batch: int, evaluate_batch: int) -> None:
        """Refuse, before the first step, splits that cannot be had."""
        for name in ("valid", "test"):
            self.split(name, 1)

    def split(self, name: str, count: int | None = None) -> Batch:
        """The fixed set `train`, `valid` or `test`, or its first `count` examples."""
        home = region(self.sizes, name)
        size = self.sizes[name]
        count = size if count is None else count
        if not 1 <= count <= size:
            raise BeyondSplit(count, size, f"of split {name!r} of task {self.name!r} must be 1 to {size}")
        return to_batch(self.fixed(home, count))

    def beginning(self, name: str, most: int) -> Batch:
        """The first `most` examples of a split, or all if there are fewer."""
        return self.split(name, min(most, self.sizes[name]))

    def fixed(self, home: Region, count: int) -> Examples:
        """The first `count` examples of the fixed set of a region, in the order of drawing."""
        generator = np.random.default_rng([self.seed, list(self.sizes).index(home.split), 0])
        return self._collect(generator, home, count, expected=ROUND, unique=self.unique)

    def fresh(self, size: int, index: int, seed: int) -> Batch:
        """Batch number `index` of an endless training stream: the same whenever it is asked for."""
        if size < 1:
            raise ConfigError(f"size={size} of a batch of task {self.name!r} must be at least 1")
        home = region(self.sizes, "train")
        generator = np.random.default_rng([seed, 0, index])
        return to_batch(self._collect(generator, home, size, expected=8 + size * 9 // 8, unique=False))

    def target_counts(self) -> np.ndarray:
        """How often each id is a target under the loss, (V,), in examples to train on."""
        batch = self.fresh(COUNTED, 0, self.seed)
        return np.bincount(batch.targets[batch.loss_mask].numpy(), minlength=self.vocabulary)

    def with_length(self, length: int) -> Task:
        """The same task with a shorter input, for a curriculum over length."""
        return replace(self, **{self.grows: length})

    def original_answer(self, batch: Batch) -> Tensor:
        """The positions (B, T) that the original code's metric counts."""
        return batch.answer

    def render(self, tokens: Sequence[int]) -> str:
        """Tokens for a reader."""
        return " ".join(str(int(token)) for token in tokens)

    def describe(self) -> str:
        """One paragraph: what the task is, its layout and its sizes."""
        text = " ".join((inspect.getdoc(type(self)) or "").split())
        example = self.draw(np.random.default_rng(0), 1)
        sizes = ", ".join(f"{size} {name}" for name, size in self.sizes.items())
        return (
            f"{self.name} (version {self.version}): {text} Sequences of {self.total_length} tokens, "
            f"{self.vocabulary} kinds of token; targets under the loss: {example.loss_mask.sum()}, "
            f"of the answer: {example.answer.sum()}. Fixed splits: {sizes}."
        )

    def _collect(
        self, generator: np.random.Generator, home: Region, count: int, *, expected: int, unique: bool
    ) -> Examples:
        """The first `count` drawn examples that lie in `home`, in the order of drawing.

        How much is drawn at a time depends on `expected`, never on `count`: a short set is the beginning
        of a long one.
        """
        drawn = ceil(expected / home.share)
        kept: list[Examples] = []
        collected = empty_rounds = 0
        seen: set[int] = set()
        while collected < count and empty_rounds < PATIENCE:
            examples = self.draw(generator, drawn)
            check_examples(self, examples, drawn)
            hashes = hash_rows(examples.tokens)
            rows = np.flatnonzero(home.holds(hashes))
            rows = unseen(hashes, rows, seen) if unique else rows
            kept.append(examples.select(rows[: count - collected]))
            collected += len(rows)
            empty_rounds = 0 if len(rows) else empty_rounds + 1
        if collected < count:
            raise ConfigError(
                f"the example space of task {self.name!r} is too small for split {home.split!r}: "
                f"found {collected} of {count} examples; choose {self.enlarge}, or ask for fewer examples"
            )
        return Examples(*map(np.concatenate, zip(*kept, strict=True)))


def next_token(rows: np.ndarray, answer: int) -> Examples:
    """Examples that predict each row's next token, (B, T + 1); the last `answer` targets are the answer.

    The very last token is only ever a target, so a row of T + 1 tokens is a sequence of T.
    """
    tokens, targets = rows[:, :-1], rows[:, 1:]
    mask = np.zeros(tokens.shape, dtype=bool)
    mask[:, tokens.shape[1] - answer :] = True
    return Examples(tokens, targets, mask, mask)


def to_batch(examples: Examples) -> Batch:
    """The same examples as tensors."""
    tokens, targets = (column.astype(np.int64, copy=False) for column in examples[:2])
    return Batch(*map(torch.from_numpy, (tokens, targets, *examples[2:])))


def check_examples(task: Task, examples: Examples, count: int) -> None:
    """Raise unless what was drawn has the task's own shape and vocabulary."""
    shape = (count, task.total_length)
    for name, column in examples._asdict().items():
        wanted = "int64" if name in ("tokens", "targets") else "bool"
        if column.shape != shape or not np.can_cast(column.dtype, wanted):
            raise ConfigError(
                f"task {task.name!r} drew {name} of shape {column.shape} and type {column.dtype}; "
                f"expected {wanted} of shape {shape} = (count, total_length)"
            )
        if wanted == "int64" and (column.min() < 0 or column.max() >= task.vocabulary):
            raise ConfigError(
                f"task {task.name!r} drew {name} from {column.min()} to {column.max()}; "
                f"ids must be 0 to {task.vocabulary - 1}, as vocabulary={task.vocabulary}"
            )
    wrong = (examples.targets[:, :-1] != examples.tokens[:, 1:]) & examples.loss_mask[:, :-1]
    if wrong.any():
        raise ConfigError(
            f"task {task.name!r} drew a target under the loss that is not the next token: a generated answer "
            "is read back as input; put it there"
        )
    if (examples.answer & ~examples.loss_mask).any():
        raise ConfigError(f"task {task.name!r} drew an answer outside of loss_mask; put it under the loss")


def unseen(hashes: np.ndarray, rows: np.ndarray, seen: set[int]) -> np.ndarray:
    """Those `rows` whose hash was never seen before; remembers all of them."""
    new = []
    for row, value in zip(rows.tolist(), hashes[rows].tolist(), strict=True):
        if value not in seen:
            seen.add(value)
            new.append(row)
    return np.array(new, dtype=np.int64)
