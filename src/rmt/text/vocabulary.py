"""Vocabularies of text: words, bytes, characters or a tokenizer's tokens to ids and back.

A vocabulary is a list of symbols; a symbol's place is its id. Word vocabularies are made as Transformer-XL
makes them: `<eos>` first, then words by falling frequency, ties by first appearance, no lowercasing.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from rmt.errors import ConfigError, DataError, shown, unknown
from rmt.jsonfile import parse_json
from rmt.location import class_at
from rmt.tasks.tokenizer import END, UNKNOWN
from rmt.tasks.unknown import UnknownRule
from rmt.text.files import FileSpan, line_blocks

FILE = "vocabulary.json"
ESCAPED_BYTE = re.compile("[\udc80-\udcff]")  # a lone surrogate: a byte that is not UTF-8 (PEP 383)
ERROR = UnknownRule("error")
KINDS = {  # kind of token: where its vocabulary is
    "words": "rmt.text.vocabulary:Words",
    "bytes": "rmt.text.codes:Bytes",
    "characters": "rmt.text.codes:Characters",
    "tokenizer": "rmt.text.library:LibraryTokens",
}


class UnknownSymbol(DataError):
    """A symbol that a vocabulary does not have, behind so many bytes of what was encoded."""

    def __init__(self, problem: str, size: int):
        self.problem, self.size = problem, size
        super().__init__(f"{problem} is not in the vocabulary; leave out --vocabulary")


class BlockIds(NamedTuple):
    """The ids of a block of text, and how many symbols of it the vocabulary does not have."""

    ids: np.ndarray  # (n,) int64
    unknown: int = 0


class Vocabulary(ABC):
    """Symbols and their ids 0 to size - 1."""

    kind: ClassVar[str]
    from_train_only: ClassVar[bool]  # else symbols are those of all splits
    symbols_are: ClassVar[str] = "texts"

    def __init__(self, symbols: Sequence[Any]):
        self.symbols = list(symbols)
        odd = [symbol for symbol in self.symbols if not self.is_symbol(symbol)]
        if odd:
            raise ValueError(f"symbols of {self.kind} are {self.symbols_are}, not {shown(odd[0])}")
        if not self.symbols or len(set(self.symbols)) < len(self.symbols):
            raise DataError(f"a vocabulary of {len(self)} {self.kind} must have symbols, each of them once")

    def __len__(self) -> int:
        return len(self.symbols)

    @staticmethod
    def is_symbol(symbol: Any) -> bool:
        """Whether something can be a symbol of this kind."""
        return isinstance(symbol, str)

    @staticmethod
    @abstractmethod
    def blocks(piece: FileSpan, strict: bool = True) -> Iterator[Any]:
        """A piece of a file, in blocks that can be encoded one by one; if strict, it must be text."""

    @classmethod
    @abstractmethod
    def of(cls, blocks: Iterable[Any]) -> Vocabulary:
        """The vocabulary of a text given in blocks."""

    @classmethod
    def closed(cls) -> Vocabulary | None:
        """The vocabulary that is the same for every text, if there is one."""
        return None

    @abstractmethod
    def encode(self, block: Any, rule: UnknownRule = ERROR) -> BlockIds:
        """The ids of a block; a symbol it does not have goes by the rule, or is `<unk>`."""

    @abstractmethod
    def find(self, symbol: str) -> int | None:
        """The id of a symbol as a user writes it, or none."""

    def require(self, symbol: str) -> int:
        """The id of a symbol as a user writes it."""
        id = self.find(symbol)
        if id is None:
            raise DataError(
                f"unknown=replace:{symbol} names a symbol that is not known, either; choose another"
            )
        return id

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str | bytes:
        """The text of ids."""

    def write(self, file: Path) -> None:
        text = json.dumps({"tokens": self.kind, "symbols": self.symbols}, ensure_ascii=False)
        file.write_text(text, encoding="utf-8")


class Words(Vocabulary):
    """Words between white space, `<eos>` behind every line; an `<eos>` in the text is the same symbol."""

    kind = "words"
    from_train_only = True

    blocks = staticmethod(line_blocks)

    @classmethod
    def of(cls, blocks: Iterable[str]) -> Words:
        counts: Counter[str] = Counter()
        for block in blocks:
            counts.update(words_of(block))
        del counts[END]
        return cls([END, *(word for word, _ in counts.most_common())])

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: id for id, word in enumerate(self.symbols)}

    def encode(self, block: str, rule: UnknownRule = ERROR) -> BlockIds:
        words = words_of(block)
        ids = np.array([self.ids.get(word, -1) for word in words], dtype=np.int64)
        missing = np.flatnonzero(ids < 0)
        if rule.rule == "skip":
            return BlockIds(np.delete(ids, missing), int(missing.size))
        symbol = rule.symbol if rule.rule == "replace" else UNKNOWN
        if missing.size and symbol not in self.ids:
            raise DataError(
                f"word {words[missing[0]]!r} is not in the vocabulary, which has no {symbol}; "
                f"replace rare words by {UNKNOWN}, or use --tokens characters or bytes"
            )
        ids[missing] = self.ids.get(symbol, -1)
        return BlockIds(ids, int(missing.size))

    def find(self, symbol: str) -> int | None:
        return self.ids.get(symbol)

    def decode(self, ids: Iterable[int]) -> str:
        lines: list[list[str]] = [[]]
        for id in ids:
            if self.symbols[id] == END:
                lines.append([])
                continue
            lines[-1].append(self.symbols[id])
        return "\n".join(map(" ".join, lines))


def vocabulary_kind(name: str) -> type[Vocabulary]:
    """The class of `words`, `bytes`, `characters` or `tokenizer`."""
    if name not in KINDS:
        raise unknown("kind of tokens", name, KINDS)
    return cast(type[Vocabulary], class_at(KINDS[name], Vocabulary, "rmt.text.vocabulary", f"tokens={name}"))


def make_vocabulary(kind: str, content: Any) -> Vocabulary:
    """The vocabulary of a kind from its symbols, or from the text of a `tokenizer.json`."""
    make: Any = vocabulary_kind(kind)
    return cast(Vocabulary, make(content))


def load_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a prepared corpus (its folder, or its `vocabulary.json`) or of a `tokenizer.json`."""
    file = path / FILE if path.is_dir() else path
    remedy = "name a folder of rmt data prepare, or a tokenizer.json"
    try:
        text = file.read_bytes().decode()
        content = parse_json(text)
        if "model" in content:
            return make_vocabulary("tokenizer", text)
        return make_vocabulary(content["tokens"], content["symbols"])
    except FileNotFoundError:
        raise DataError(f"vocabulary {str(file)!r} does not exist; {remedy}") from None
    except ValueError as error:
        raise DataError(f"{str(file)!r} is not a vocabulary ({error}); {remedy}") from None
    except (LookupError, TypeError, AttributeError, OverflowError, ConfigError):
        raise DataError(f"{str(file)!r} is not a vocabulary; {remedy}") from None
    except DataError as error:
        raise DataError(f"{str(file)!r}: {error}") from None


def not_utf8(escaped: str) -> str:
    """A byte that is not UTF-8, in words."""
    return f"byte {ord(escaped) - 0xDC00}, which is not UTF-8,"


def words_of(block: str) -> list[str]:
    """The words of whole lines, `<eos>` behind each line; the last line may lack its line break."""
    lines = block.split("\n")
    if not lines[-1]:
        lines.pop()
    words = []
    for line in lines:
        words += line.split()
        words.append(END)
    return words
