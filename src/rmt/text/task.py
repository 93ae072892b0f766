"""Text as a task: a prepared corpus, read in lanes whose state goes on from batch to batch (section 4)."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rmt.errors import ConfigError, DataError
from rmt.tasks.segments import Batch
from rmt.tasks.task import BeyondSplit, Examples, Task, next_token, to_batch
from rmt.tasks.tokenizer import TaskTokenizer
from rmt.text.corpora import find_source
from rmt.text.corpus import DESCRIPTION, Corpus, open_corpus
from rmt.text.files import SPLITS
from rmt.text.lanes import Lanes
from rmt.text.places import prepare_usual, prepared_before, usual_folder
from rmt.text.prepare import OtherText
from rmt.text.tokenizer import of_vocabulary

BITS = ("bytes", "characters")  # kinds of token that are measured in bits
COUNTED_TOKENS = 10_000_000  # of a text, that say how often each token comes
EXAMPLE_SEGMENTS = 3  # of a piece of text to look at

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Text(Task):
    """Predict the next token of a corpus, read in lanes that never end."""

    layout: ClassVar[str] = "lanes"
    sign: ClassVar[int] = -1
    generates: ClassVar[bool] = False
    schedules: ClassVar[tuple[str, ...]] = ("chunked", "sliding")
    settings: ClassVar[tuple[str, ...]] = ("reset",)
    without_effect: ClassVar[tuple[str, ...]] = (
        "train.evaluate_samples",
        "train.test_samples",
        "curriculum.over",
    )
    older: ClassVar[dict[str, Any]] = {"occurring": True}

    data: str = field(default="", metadata={"help": "a corpus's name, a prepared folder, or a text's path"})
    tokens: str | None = field(default=None, metadata={"help": "words, bytes or characters"})
    segment_length: int = field(default=64, metadata={"help": "tokens per segment"})
    occurring: bool = field(
        default=False, metadata={"help": "bytes: only those that occur have an id, as in release 0.1.0"}
    )

    def __post_init__(self) -> None:
        if self.seed:
            raise ConfigError(f"seed={self.seed} has no effect on task 'text'; leave it out")
        for split in SPLITS:
            if split not in self.corpus.splits:
                raise DataError(
                    f"data={self.data!r} has no {split} split; training needs train, valid and test"
                )

    @cached_property
    def corpus(self) -> Corpus:
        """The prepared corpus."""
        return find_corpus(self.data, self.tokens, self.occurring)

    @property
    def vocabulary(self) -> int:
        return int(self.corpus.description["vocabulary"])

    @property
    def total_length(self) -> int:
        """The tokens of a piece to look at."""
        return EXAMPLE_SEGMENTS * self.segment_length

    @property
    def metric(self) -> str:  # type: ignore[override]  # it depends on the corpus
        """What results are judged by; lower is better."""
        return "bits_per_character" if self.corpus.description["tokens"] in BITS else "perplexity"

    @property
    def fingerprint(self) -> str:
        """What two corpora have to share to be the same to a run."""
        texts = [(split["sha256"], split["documents"]) for split in self.corpus.splits.values()]
        identity = (self.corpus.description["vocabulary_sha256"], *texts)
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]

    def tokens_per_segment(self, segments: int) -> int:
        return self.segment_length

    def tokenizer(self) -> TaskTokenizer:
        return of_vocabulary(self.corpus.vocabulary())

    def samples(self, split: str, most: int) -> int | None:
        """A text is always read whole."""
        return None

    def require_splits(self, batch: int, evaluate_batch: int) -> None:
        self.lanes("train", batch)
        for split in ("valid", "test"):
            self.lanes(split, evaluate_batch or batch)

    def lanes(self, split: str, batch: int) -> Lanes:
        """A split as `batch` lanes."""
        try:
            return Lanes.open(self.corpus.folder, split, batch)
        except ConfigError as error:
            raise ConfigError(f"split {split!r} of {str(self.corpus.folder)!r}: {error}") from None

    def split(self, name: str, count: int | None = None) -> Batch:
        """The first `count` pieces of a split, one behind the other."""
        tokens, length = self.corpus.tokens(name), self.total_length
        pieces = self.whole_pieces(name)
        count = pieces if count is None else count
        if not 1 <= count <= pieces:
            where = f"of split {name!r} of task {self.name!r} must be 1 to {pieces}"
            raise BeyondSplit(count, pieces, f"{where}: it has {len(tokens):,} tokens, a piece {length}")
        return to_batch(self.pieces(tokens, np.arange(count) * length))

    def beginning(self, name: str, most: int) -> Batch:
        """Nothing, if a split has no whole piece."""
        starts = np.arange(min(most, self.whole_pieces(name))) * self.total_length
        return to_batch(self.pieces(self.corpus.tokens(name), starts))

    def whole_pieces(self, name: str) -> int:
        """How many pieces a split has."""
        return (len(self.corpus.tokens(name)) - 1) // self.total_length

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        """Pieces from anywhere in the text to train on."""
        tokens = self.corpus.tokens("train")
        return self.pieces(tokens, generator.integers(len(tokens) - self.total_length, size=count))

    def pieces(self, tokens: np.ndarray, starts: np.ndarray) -> Examples:
        """The piece from each start on; every next token is asked for."""
        rows = tokens[starts[:, None] + np.arange(self.total_length + 1)].astype(np.int64)
        return next_token(rows, answer=self.total_length)

    def fresh(self, size: int, index: int, seed: int) -> Batch:
        return to_batch(self.draw(np.random.default_rng([seed, 0, index]), size))

    def target_counts(self) -> np.ndarray:
        return np.bincount(self.corpus.tokens("train")[:COUNTED_TOKENS], minlength=self.vocabulary)

    def render(self, tokens: Sequence[int]) -> str:
        """The text of some tokens, line breaks and the like escaped."""
        return repr(self.tokenizer().decode(int(token) for token in tokens))[1:-1]

    def describe(self) -> str:
        """One paragraph: what the corpus is, its kind of token and its sizes."""
        description = self.corpus.description
        sizes = ", ".join(f"{split['tokens']:,} {name}" for name, split in self.corpus.splits.items())
        return (
            f"{self.name} (version {self.version}): predict the next token of {description['name']}, "
            f"prepared in {str(self.corpus.folder)!r}: {description['tokens']}, {self.vocabulary:,} kinds "
            f"of token; tokens: {sizes}. An example is a piece of {self.total_length} tokens."
        )


def find_corpus(data: str, tokens: str | None = None, occurring: bool = False) -> Corpus:
    """The prepared corpus that `data` names; a known name or the path of a text is prepared on the way."""
    if not data:
        raise ConfigError("data is missing: name a corpus or the path of a text with --data")
    if (Path(data) / DESCRIPTION).is_file():
        corpus = open_corpus(Path(data))
        if tokens not in (None, corpus.description["tokens"]):
            raise ConfigError(f"task.tokens={tokens}: {data!r} is prepared in {corpus.description['tokens']}")
        return corpus
    if (left := prepared_before(Path(data), tokens or "bytes", occurring)) is not None:
        tell_gone(data, left.folder)
        return left
    try:
        source = find_source(data, tokens, occurring=occurring)
        folder = usual_folder(source)
        is_new = not (folder / DESCRIPTION).is_file()
        corpus = prepare_usual(source, folder)
    except OtherText:
        raise OtherText(
            f"{str(folder)!r} has another corpus than {data!r} now is; replace it with rmt data prepare "
            f"{data} --tokens {source.tokens} --force, or prepare {data!r} with --out DIR and give --data DIR"
        ) from None
    except DataError as error:
        raise DataError(in_training(str(error))) from None
    if is_new:
        log.info("%s is prepared in %s", data, corpus.folder)
    return corpus


@cache
def tell_gone(data: str, folder: Path) -> None:
    """Say, once in a process, that a text is not there."""
    log.info("%s is not there any more: what was prepared of it in %s is used", data, folder)


def in_training(message: str) -> str:
    """A message of the preparation, with the options as `rmt train` has them."""
    message = message.replace(
        "name the place of a copy with --path", "name a prepared copy with --data FOLDER"
    )
    return message.replace("--tokens", "--task.tokens")
