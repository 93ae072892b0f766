"""Vocabularies of text: words, bytes, characters or a tokenizer's tokens to ids and back.

A vocabulary is a list of symbols; a symbol's place is its id. Word vocabularies are made as Transformer-XL
makes them: `<eos>` first, then words by falling frequency, ties by first appearance, no lowercasing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rmt.errors import DataError, unknown
from rmt.tasks.tokenizer import END, UNKNOWN
from rmt.text.files import Piece, byte_blocks, line_blocks, text_blocks

FILE = "vocabulary.json"


class Encoded(NamedTuple):
    """The ids of a block of text, and how many of them stand for what the vocabulary does not have."""

    ids: np.ndarray  # (n,) int64
    unknown: int = 0


class Vocabulary(ABC):
    """Symbols and their ids 0 to size - 1."""

    kind: ClassVar[str]
    from_train_only: ClassVar[bool]  # else symbols are those of all splits

    def __init__(self, symbols: Sequence[Any]):
        self.symbols = list(symbols)
        if not self.symbols or len(set(self.symbols)) < len(self.symbols):
            raise DataError(f"a vocabulary of {len(self)} {self.kind} must have symbols, each of them once")

    def __len__(self) -> int:
        return len(self.symbols)

    @staticmethod
    @abstractmethod
    def blocks(piece: Piece) -> Iterator[Any]:
        """A piece of a file, in blocks that can be encoded one by one."""

    @classmethod
    @abstractmethod
    def of(cls, blocks: Iterable[Any]) -> Vocabulary:
        """The vocabulary of a text given in blocks."""

    @abstractmethod
    def encode(self, block: Any) -> Encoded:
        """The ids of a block; a symbol it does not have is an error, or `<unk>` where words have that."""

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

    def encode(self, block: str) -> Encoded:
        words = words_of(block)
        ids = np.array([self.ids.get(word, -1) for word in words], dtype=np.int64)
        missing = np.flatnonzero(ids < 0)
        if missing.size and UNKNOWN not in self.ids:
            raise DataError(
                f"word {words[missing[0]]!r} is not in the vocabulary, which has no {UNKNOWN}; "
                f"replace rare words by {UNKNOWN}, or use --tokens characters or bytes"
            )
        ids[missing] = self.ids.get(UNKNOWN, -1)
        return Encoded(ids, int(missing.size))

    def decode(self, ids: Iterable[int]) -> str:
        lines: list[list[str]] = [[]]
        for id in ids:
            if self.symbols[id] == END:
                lines.append([])
                continue
            lines[-1].append(self.symbols[id])
        return "\n".join(map(" ".join, lines))


class Codes(Vocabulary):
    """Symbols that are numbers themselves, in rising order."""

    from_train_only = False
    limit: ClassVar[int]  # codes are below it

    @staticmethod
    @abstractmethod
    def codes(block: Any) -> np.ndarray:
        """The number of every symbol of a block, (n,)."""

    @classmethod
    def of(cls, blocks: Iterable[Any]) -> Codes:
        seen = np.zeros(cls.limit, dtype=bool)
        for block in blocks:
            seen[cls.codes(block)] = True
        return cls([cls.symbol(code) for code in np.flatnonzero(seen).tolist()])

    @staticmethod
    @abstractmethod
    def symbol(code: int) -> Any:
        """The symbol with a number."""

    @abstractmethod
    def code(self, symbol: Any) -> int:
        """The number of a symbol."""

    @cached_property
    def ids(self) -> np.ndarray:
        """The id of every number, -1 where there is none."""
        table = np.full(self.limit, -1, dtype=np.int64)
        table[[self.code(symbol) for symbol in self.symbols]] = np.arange(len(self))
        return table

    def encode(self, block: Any) -> Encoded:
        codes = self.codes(block)
        ids = self.ids[codes]
        if ids.size and ids.min() < 0:
            symbol = self.symbol(int(codes[np.argmin(ids)]))
            raise DataError(f"{self.kind[:-1]} {symbol!r} is not in the vocabulary; leave out --vocabulary")
        return Encoded(ids)


class Bytes(Codes):
    """The bytes that occur, as in the paper's enwik8; symbols are their values."""

    kind, limit = "bytes", 256

    blocks = staticmethod(byte_blocks)

    @staticmethod
    def codes(block: bytes) -> np.ndarray:
        return np.frombuffer(block, dtype=np.uint8)

    @staticmethod
    def symbol(code: int) -> int:
        return code

    def code(self, symbol: int) -> int:
        return symbol

    def decode(self, ids: Iterable[int]) -> bytes:
        return bytes(self.symbols[id] for id in ids)


class Characters(Codes):
    """The characters that occur in a UTF-8 text."""

    kind, limit = "characters", 0x110000

    blocks = staticmethod(text_blocks)

    @staticmethod
    def codes(block: str) -> np.ndarray:
        return np.frombuffer(block.encode("utf-32-le"), dtype="<u4")

    @staticmethod
    def symbol(code: int) -> str:
        return chr(code)

    def code(self, symbol: str) -> int:
        return ord(symbol)

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.symbols[id] for id in ids)


class Tokenizer(Vocabulary):
    """A tokenizer of the `tokenizers` library, given as the text of its `tokenizer.json`.

    It sees one line at a time, line break included, so ids do not depend on the blocks a text comes in. It
    adds no special tokens, and what its file says of padding and of a largest length has no effect.
    """

    kind = "tokenizer"
    from_train_only = False

    blocks = staticmethod(line_blocks)

    def __init__(self, text: str):
        self.text, self.library = text, load_tokenizer(text)
        highest = max(self.library.get_vocab().values(), default=-1)
        self.symbols = [self.library.id_to_token(id) for id in range(highest + 1)]  # None: an id not in use

    @classmethod
    def of(cls, blocks: Iterable[str]) -> Tokenizer:
        raise DataError("tokens=tokenizer needs a file; name a tokenizer.json with --tokenizer")

    @cached_property
    def unknown_id(self) -> int:
        """The id of what the tokenizer does not know, -1 if it has none."""
        model = json.loads(self.text)["model"]
        symbol = model.get("unk_token")
        id = model.get("unk_id") if symbol is None else self.library.token_to_id(symbol)
        return -1 if id is None else id

    def encode(self, block: str) -> Encoded:
        lines = list(StringIO(block))
        try:
            encoded = self.library.encode_batch_fast(lines, add_special_tokens=False)
        except Exception as error:  # the library raises no class of its own
            raise DataError(f"the tokenizer cannot encode it ({error}); use another") from None
        ids = np.fromiter(chain.from_iterable(line.ids for line in encoded), dtype=np.int64)
        return Encoded(ids, int(np.count_nonzero(ids == self.unknown_id)))

    def decode(self, ids: Iterable[int]) -> str:
        return self.library.decode([int(id) for id in ids], skip_special_tokens=False)

    def write(self, file: Path) -> None:
        """The same `tokenizer.json`, so that other programs can read it."""
        file.write_bytes(self.text.encode())


KINDS: dict[str, type[Vocabulary]] = {kind.kind: kind for kind in (Words, Bytes, Characters, Tokenizer)}


def vocabulary_kind(name: str) -> type[Vocabulary]:
    """The class of `words`, `bytes`, `characters` or `tokenizer`."""
    if name not in KINDS:
        raise unknown("kind of tokens", name, KINDS)
    return KINDS[name]


def read_vocabulary(place: Path) -> Vocabulary:
    """The vocabulary of a prepared corpus (its folder, or its `vocabulary.json`) or of a `tokenizer.json`."""
    file = place / FILE if place.is_dir() else place
    remedy = "name a folder of rmt data prepare, or a tokenizer.json"
    try:
        text = file.read_bytes().decode()
        content = json.loads(text)
        return Tokenizer(text) if "model" in content else KINDS[content["tokens"]](content["symbols"])
    except FileNotFoundError:
        raise DataError(f"vocabulary {str(file)!r} does not exist; {remedy}") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{str(file)!r} is not a vocabulary; {remedy}") from None
    except DataError as error:
        raise DataError(f"{str(file)!r}: {error}") from None


def load_tokenizer(text: str) -> Any:
    """The tokenizer that a `tokenizer.json` describes, without its padding and cutting."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise DataError(
            "a tokenizer needs a library; install it with: pip install 'recurrent-memory[tokenizers]'"
        ) from None
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises no class of its own
        raise DataError(f"the tokenizers library cannot read it ({error}); name another file") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


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
