"""Vocabularies of bytes and of characters: symbols that are numbers themselves, in rising order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rmt.tasks.unknown import UnknownRule
from rmt.text.files import FileSpan, byte_blocks, text_blocks
from rmt.text.vocabulary import ERROR, ESCAPED_BYTE, BlockIds, UnknownSymbol, Vocabulary, not_utf8


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

    @staticmethod
    @abstractmethod
    def spelled(code: int) -> str:
        """A symbol in words, for a reader who has to find it."""

    @cached_property
    def ids(self) -> np.ndarray:
        """The id of every number, -1 where there is none."""
        table = np.full(self.limit, -1, dtype=np.int64)
        table[[self.code(symbol) for symbol in self.symbols]] = np.arange(len(self))
        return table

    def encode(self, block: Any, rule: UnknownRule = ERROR) -> BlockIds:
        codes = self.codes(block)
        ids = self.ids[codes]
        strange = ids < 0
        count = int(np.count_nonzero(strange))
        if count and rule.rule == "error":
            index = int(np.argmax(strange))
            raise UnknownSymbol(self.spelled(int(codes[index])), self.size_of(block[:index]))
        if count and rule.rule == "skip":
            ids = ids[~strange]
        elif count:
            ids[strange] = self.require(rule.symbol)
        return BlockIds(ids, count)

    @staticmethod
    @abstractmethod
    def size_of(block: Any) -> int:
        """The bytes of a block."""


class Bytes(Codes):
    """The values of bytes: all 256, or those that occur, as in the paper's enwik8."""

    kind, limit = "bytes", 256
    symbols_are = "whole numbers from 0 to 255"

    @staticmethod
    def is_symbol(symbol: Any) -> bool:
        return type(symbol) is int and 0 <= symbol < Bytes.limit

    @staticmethod
    def blocks(piece: FileSpan, strict: bool = True) -> Iterator[bytes]:
        """Any byte is a symbol, text or not."""
        return byte_blocks(piece)

    @classmethod
    def closed(cls) -> Bytes:
        return cls(range(256))

    @staticmethod
    def codes(block: bytes) -> np.ndarray:
        return np.frombuffer(block, dtype=np.uint8)

    @staticmethod
    def symbol(code: int) -> int:
        return code

    def code(self, symbol: int) -> int:
        return symbol

    @staticmethod
    def spelled(code: int) -> str:
        return f"byte {code} ({chr(code)!r})" if code < 128 else f"byte {code}"

    @staticmethod
    def size_of(block: bytes) -> int:
        return len(block)

    def find(self, symbol: str) -> int | None:
        """The id of a character of one byte, or of a byte's value such as 0x3d."""
        coded = symbol.encode("utf-8", "surrogateescape")
        if len(coded) > 1:
            try:
                coded = bytes([int(symbol, 0)])
            except ValueError:
                return None
        id = int(self.ids[coded[0]]) if coded else -1
        return id if id >= 0 else None

    def decode(self, ids: Iterable[int]) -> bytes:
        return bytes(self.symbols[id] for id in ids)


class Characters(Codes):
    """The characters that occur in a UTF-8 text."""

    kind, limit = "characters", 0x110000
    symbols_are = "texts of one character"

    @staticmethod
    def is_symbol(symbol: Any) -> bool:
        return isinstance(symbol, str) and len(symbol) == 1

    blocks = staticmethod(text_blocks)

    @staticmethod
    def codes(block: str) -> np.ndarray:
        return np.frombuffer(block.encode("utf-32-le", "surrogatepass"), dtype="<u4")

    @staticmethod
    def symbol(code: int) -> str:
        return chr(code)

    def code(self, symbol: str) -> int:
        return ord(symbol)

    @staticmethod
    def spelled(code: int) -> str:
        if ESCAPED_BYTE.match(chr(code)):
            return not_utf8(chr(code))
        return f"character {chr(code)!r} (U+{code:04X}, bytes {chr(code).encode().hex(' ')})"

    @staticmethod
    def size_of(block: str) -> int:
        return len(block.encode("utf-8", "surrogateescape"))

    def find(self, symbol: str) -> int | None:
        id = int(self.ids[ord(symbol)]) if len(symbol) == 1 else -1
        return id if id >= 0 else None

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.symbols[id] for id in ids)
