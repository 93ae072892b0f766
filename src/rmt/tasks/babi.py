"""bAbI questions and the novels they are hidden in, as ids of words: few words have an id of their own.

The words of questions and facts, a few dozen, are tokens by themselves. Every other word is one of so many
buckets, chosen by a hash of its letters. So the vocabulary is small and closed, and any text can be read. A
novel's "Mary" is the same token as a fact's, as it is for a reader.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from rmt.errors import DataError, shown
from rmt.tasks.tokenizer import Decoder, TaskTokenizer, distinct_texts
from rmt.tasks.unknown import TokenizedText
from rmt.textfile import SUFFIXES, open_text, utf8_text

LINES = 4096  # of a novel at a time
MOST_BUCKETS = 60_000  # with the words of facts, ids fit into 16 bits
LONGEST_NUMBER = 10  # digits of the number of a line
WORD = re.compile(r"[a-z0-9']+|[^\sa-z0-9']")


class Story(NamedTuple):
    """A question with the facts before it, and its answer."""

    facts: list[np.ndarray]  # ids of each sentence, in their order
    question: np.ndarray  # ids
    answer: int
    since: int  # facts behind the last one that the answer follows from


class StoryLine(NamedTuple):
    """A line of a bAbI file; only a question has an answer."""

    number: int  # in its story
    sentence: str
    answer: str
    support: int  # the last line that the answer follows from


class HashedWords:
    """The words of a kind of question, and buckets for all others."""

    def __init__(self, symbols: list[str], buckets: int):
        self.symbols, self.buckets = symbols, buckets
        self.known = {word: id for id, word in enumerate(symbols)}
        self.id_of = cache(self.find)

    def __len__(self) -> int:
        return len(self.symbols) + self.buckets

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text, in small letters, punctuation apart."""
        return np.array([self.id_of(word) for word in words_of(text)], dtype=np.int64)

    def find(self, word: str) -> int:
        id = self.known.get(word)
        return (
            len(self.symbols) + crc32(word.encode("utf-8", "surrogateescape")) % self.buckets
            if id is None
            else id
        )

    def word(self, id: int) -> str:
        return self.symbols[id] if id < len(self.symbols) else f"~{id - len(self.symbols)}"


class HashedWordTokenizer(TaskTokenizer):
    """Words in small letters, punctuation apart; every word is known, if only by its bucket."""

    kind = "hashed-words"

    def __init__(self, words: HashedWords):
        self.words = words

    def tokenize(self, text: bytes) -> TokenizedText:
        decoded = text.decode("utf-8", "surrogateescape")
        return TokenizedText([self.words.id_of(word) for word in words_of(decoded)], len(text))

    def complete_prefix(self, text: bytes) -> int:
        return 1 + max(text.rfind(space) for space in (b" ", b"\n"))

    def decoder(self) -> Decoder:
        return lambda id: f"{self.words.word(id)} "

    def find(self, symbol: str) -> int | None:
        return self.words.known.get(symbol)

    def shown(self) -> list[str]:
        return [self.words.word(id) for id in range(len(self.words))]

    def content(self) -> dict[str, Any]:
        return {"symbols": self.words.symbols, "buckets": self.words.buckets}

    @classmethod
    def restore(cls, content: dict[str, Any]) -> HashedWordTokenizer:
        buckets = content["buckets"]
        if isinstance(buckets, bool) or not isinstance(buckets, int) or not 0 < buckets <= MOST_BUCKETS:
            raise ValueError(f"buckets={shown(buckets)} must be 1 to {MOST_BUCKETS:,}")
        return cls(HashedWords(distinct_texts(content["symbols"]), buckets))


class Library(NamedTuple):
    """Everything a kind of question needs, by split."""

    words: HashedWords
    stories: dict[str, list[Story]]
    novels: dict[str, list[np.ndarray]]  # ids, memory-mapped
    swaps: list[np.ndarray]  # ids that can change places in a story without changing its sense


@cache
def open_library(data: str, qa: int, buckets: int, held_out: str) -> Library:
    """The questions and novels in a folder with `babi/` and `books/`.

    A tenth of the training questions and of each training novel's end validates; the test questions and the
    novels whose name has `held_out` test.
    """
    questions = {split: babi_file(Path(data), qa, split) for split in ("train", "test")}
    lines = {split: list(load_lines(file)) for split, file in questions.items()}
    texts = (f"{line.sentence} {line.answer}" for part in lines.values() for line in part)
    symbols = sorted({word for text in texts for word in words_of(text)})
    words = HashedWords(symbols, buckets)
    stories = {split: list(stories_of(part, words)) for split, part in lines.items()}
    for split, file in questions.items():
        if not stories[split]:
            raise DataError(f"{str(file)!r} has no questions; get it again")
    border = len(stories["train"]) * 9 // 10
    books = dict(shelves(Path(data), held_out))
    shelf = {split: [novel(file, words) for file in files] for split, files in books.items()}
    for file, ids in zip(books["train"], shelf["train"], strict=True):
        if len(ids) == 1:
            raise DataError(
                f"{str(file)!r} has one word, nothing to train and to validate with; put a novel there"
            )
    borders = [len(ids) * 9 // 10 for ids in shelf["train"]]
    return Library(
        words,
        {"train": stories["train"][:border], "valid": stories["train"][border:], "test": stories["test"]},
        {
            "train": [ids[:end] for ids, end in zip(shelf["train"], borders, strict=True)],
            "valid": [ids[end:] for ids, end in zip(shelf["train"], borders, strict=True)],
            "test": shelf["test"],
        },
        interchangeable(stories["train"], words),
    )


def data_files(data: str, qa: int, held_out: str) -> list[Path]:
    """Every file that a kind of question is made of, in a fixed order."""
    questions = [babi_file(Path(data), qa, split) for split in ("train", "test")]
    return [*questions, *(book for _, books in shelves(Path(data), held_out) for book in books)]


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())


def babi_file(data: Path, qa: int, split: str) -> Path:
    files = sorted((data / "babi").glob(f"qa{qa}_*_{split}.txt"))
    if not files:
        raise DataError(
            f"data={str(data)!r} has no babi/qa{qa}_…_{split}.txt; put the English bAbI tasks into its babi/"
        )
    return files[0]


def shelves(data: Path, held_out: str) -> Iterator[tuple[str, list[Path]]]:
    """The novels to train with and those to test with."""
    books = sorted(file for suffix in ("", *SUFFIXES) for file in (data / "books").glob(f"*.txt{suffix}"))
    kept = [book for book in books if held_out.lower() in book.name.lower()]
    others = [book for book in books if book not in kept]
    for split, novels, missing in (("train", others, "another"), ("test", kept, f"{held_out}…")):
        if not novels:
            raise DataError(
                f"data={str(data)!r} has no books/{missing}.txt to {split} with; put a novel there"
            )
        yield split, novels


def load_lines(file: Path) -> Iterator[StoryLine]:
    """The lines of a file, such as `1 Mary moved to the bathroom.`"""
    for row, line in enumerate(utf8_text(file, "get it again").splitlines(), 1):
        number, _, rest = line.partition(" ")
        sentence, answer, supports = (*rest.split("\t"), "", "")[:3]
        if not is_line_number(number) or not words_of(sentence):
            raise DataError(f"{str(file)!r} line {row} is not 'NUMBER SENTENCE': {line[:40]!r}; get it again")
        facts = supports.split()
        if answer and not (words_of(answer) and facts and all(map(is_line_number, facts))):
            raise DataError(
                f"{str(file)!r} line {row} has an answer without the lines it follows from; get it again"
            )
        yield StoryLine(int(number), sentence, answer, max(map(int, facts)) if answer else 0)


def is_line_number(text: str) -> bool:
    """Whether a text is the number of a line of a story."""
    return text.isascii() and text.isdigit() and len(text) < LONGEST_NUMBER


def stories_of(lines: list[StoryLine], words: HashedWords) -> Iterator[Story]:
    """Each question with all facts of its story that come before it."""
    facts: dict[int, np.ndarray] = {}
    for line in lines:
        if line.number == 1:
            facts = {}
        ids = words.encode(line.sentence)
        if line.answer:
            since = sum(number > line.support for number in facts)
            yield Story(list(facts.values()), ids, int(words.encode(line.answer)[0]), since)
        else:
            facts[line.number] = ids


def interchangeable(stories: list[Story], words: HashedWords) -> list[np.ndarray]:
    """Who acts, and what is answered: swapped throughout a story, they leave its sense as it is."""
    actors = {int(fact[0]) for story in stories for fact in story.facts} - {words.known.get("the")}
    answers = {story.answer for story in stories} - actors
    return [np.array(sorted(group), dtype=np.int64) for group in (actors, answers)]


def novel(file: Path, words: HashedWords) -> np.ndarray:
    """The ids of a novel, written block by block to a file without a name and mapped from there."""
    with tempfile.TemporaryFile() as stored:
        for block in line_blocks(file):
            stored.write(words.encode(block).astype(np.uint16).tobytes())
        stored.flush()
        if not stored.tell():
            raise DataError(f"{str(file)!r} has no words; put a novel there")
        return np.memmap(stored, dtype=np.uint16, mode="r")


def line_blocks(file: Path) -> Iterator[str]:
    """The text of a novel, many lines at a time."""
    try:
        with TextIOWrapper(open_text(file), encoding="utf-8", newline="\n") as lines:
            while block := "".join(islice(lines, LINES)):
                yield block
    except UnicodeDecodeError as error:
        raise DataError(f"{str(file)!r} is not UTF-8 text ({error.reason}); put another there") from None
