"""Text to token ids and back: what a session and the command line need of a vocabulary."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, ClassVar, Self

from rmt.errors import ConfigError, DataError
from rmt.tasks.unknown import REMEDY, TokenizedText, UnknownRule

Decoder = Callable[[int], str]  # gets ids one by one, returns what each adds to the text
END, UNKNOWN = "<eos>", "<unk>"
WORD = re.compile(r"\S+")
SKIPPED = -1  # the id of what is left out
PRIVATE_USE = 0xE000  # the first of Unicode's characters without a meaning


class TaskTokenizer(ABC):
    """Text to ids and back; it can be written down and restored without any task or corpus."""

    kind: ClassVar[str]  # what its file says it is
    rule: UnknownRule = UnknownRule()

    @abstractmethod
    def tokenize(self, text: bytes) -> TokenizedText:
        """The ids of a text, as far as the rule for unknown symbols lets it be encoded."""

    @abstractmethod
    def complete_prefix(self, text: bytes) -> int:
        """How many bytes at the start of a text can be encoded apart from what follows."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """A function that gets ids one by one and returns what each adds to the text."""

    @abstractmethod
    def shown(self) -> list[str]:
        """What each id looks like to a reader."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What `restore` needs, ready for JSON."""

    @classmethod
    @abstractmethod
    def restore(cls, content: dict[str, Any]) -> Self:
        """The tokenizer that was written down."""

    @abstractmethod
    def find(self, symbol: str) -> int | None:
        """The id of a symbol, or none."""

    def with_unknown(self, rule: UnknownRule) -> Self:
        """The same tokenizer with a rule for what it does not know."""
        if rule.rule == "replace" and self.find(rule.symbol) is None:
            raise ConfigError(
                f"unknown=replace:{rule.symbol} names a symbol that the model does not know, either; "
                f"choose one of: {' '.join(filter(str.strip, self.shown()[:40]))} …"
            )
        changed = copy(self)
        changed.rule = rule
        return changed

    @property
    def replacement(self) -> int | None:
        """The id of what is not known, SKIPPED, or none if it is an error."""
        if self.rule.rule == "error":
            return None
        return SKIPPED if self.rule.rule == "skip" else self.find(self.rule.symbol)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, all of it; bytes that are no UTF-8 come as lone surrogates."""
        result = self.tokenize(text.encode("utf-8", "surrogateescape"))
        if result.problem:
            raise DataError(
                f"{result.problem} at byte {result.size:,} of the text is not in the model's vocabulary; "
                f"{REMEDY}"
            )
        return result.ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        return "".join(map(self.decoder(), ids))


class WordTokenizer(TaskTokenizer):
    """Words between white space; a line break is a token, and `<unk>` a word that is not known."""

    kind = "words"
    noun = "word"
    lines = True  # whether a line break is a token

    def __init__(self, symbols: Sequence[str]):
        self.symbols = list(symbols)
        self.ids = {word: id for id, word in enumerate(self.symbols)}

    def tokenize(self, text: bytes) -> TokenizedText:
        decoded = text.decode("utf-8", "surrogateescape")
        return self.tokenize_words(decoded, len(text))

    def tokenize_words(self, text: str, size: int) -> TokenizedText:
        """The ids of words; `size` is the bytes of the text."""
        ids: list[int] = []
        unknown, replacement = 0, self.replacement
        if replacement is None:
            replacement = self.ids.get(UNKNOWN)
        for number, line in enumerate(text.split("\n")):
            if number and self.lines:
                ids.append(self.ids[END])
            for word in self.words(line):
                id = self.ids.get(word)
                if id is None:
                    if replacement is None:
                        return TokenizedText(ids, self.offset(text), unknown, f"{self.noun} {word!r}")
                    unknown, id = unknown + 1, replacement
                if id != SKIPPED:
                    ids.append(id)
        return TokenizedText(ids, size, unknown)

    def offset(self, text: str) -> int:
        """Where in a text, in bytes, the first word is that is not known."""
        for match in WORD.finditer(text):
            start = match.start()
            for word in self.words(match.group()):
                if word not in self.ids:
                    return len(text[:start].encode("utf-8", "surrogateescape"))
                start += len(word)
        raise ValueError("all of its words are known")

    def words(self, line: str) -> list[str]:
        """The words of a line."""
        return line.split()

    def find(self, symbol: str) -> int | None:
        return self.ids.get(symbol)

    def complete_prefix(self, text: bytes) -> int:
        return 1 + max(text.rfind(space) for space in (b" ", b"\n", b"\t", b"\r"))

    def decoder(self) -> Decoder:
        at_start = True

        def decode(id: int) -> str:
            nonlocal at_start
            ends_line = self.lines and self.symbols[id] == END
            text = "\n" if ends_line else self.symbols[id] if at_start else " " + self.symbols[id]
            at_start = ends_line
            return text

        return decode

    def shown(self) -> list[str]:
        return self.symbols

    def content(self) -> dict[str, Any]:
        return {"symbols": self.symbols}

    @classmethod
    def restore(cls, content: dict[str, Any]) -> Self:
        return cls(distinct_texts(content["symbols"]))


def distinct_texts(symbols: Any) -> list[str]:
    """The symbols of a file, if each is a text and stands there once."""
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise ValueError("its symbols are not a list of texts")
    if len(set(symbols)) < len(symbols) or not symbols:
        raise ValueError("it must have symbols, each of them once")
    return symbols


class SymbolTokenizer(WordTokenizer):
    """The symbols a task is shown with, between white space; where each is a character, also without."""

    kind = "symbols"
    noun = "token"
    lines = False

    @classmethod
    def of(cls, rendered: Sequence[str]) -> SymbolTokenizer:
        """Symbols as a task renders them, if they can be told apart; else plain ids.

        The first that is rendered as nothing is a blank, further ones a character that nobody types.
        """
        blank = next((id for id, symbol in enumerate(rendered) if not symbol), -1)
        unwritten = [" " if id == blank else chr(PRIVATE_USE + id) for id in range(len(rendered))]
        symbols = [symbol or unwritten[id] for id, symbol in enumerate(rendered)]
        words = all(len(symbol.split()) == 1 and symbol == symbol.strip() for symbol in symbols)
        characters = all(len(symbol) == 1 for symbol in symbols)
        if len(set(symbols)) == len(symbols) and (words or characters):
            return cls(symbols)
        return cls([str(id) for id in range(len(symbols))])

    @property
    def characters(self) -> bool:
        """Whether white space is a symbol, so that every character is one."""
        return any(not symbol.strip() for symbol in self.symbols)

    def tokenize(self, text: bytes) -> TokenizedText:
        decoded = text.decode("utf-8", "surrogateescape")
        if self.characters:
            return self.tokenize_characters(decoded, len(text))
        return self.tokenize_words(decoded, len(text))

    @cached_property
    def are_characters(self) -> bool:
        """Whether every symbol is a single character."""
        return all(len(symbol) == 1 for symbol in self.symbols)

    def words(self, line: str) -> list[str]:
        """As of words; what is no symbol are several without white space, if symbols are characters."""
        words = super().words(line)
        if not self.are_characters:
            return words
        return [symbol for word in words for symbol in ([word] if word in self.ids else word)]

    def tokenize_characters(self, text: str, size: int) -> TokenizedText:
        ids: list[int] = []
        unknown, replacement = 0, self.replacement
        for index, character in enumerate(text):
            id = self.ids.get(character)
            if id is None:
                if replacement is None:
                    before = len(text[:index].encode("utf-8", "surrogateescape"))
                    return TokenizedText(ids, before, unknown, f"{self.noun} {character!r}")
                unknown, id = unknown + 1, replacement
            if id != SKIPPED:
                ids.append(id)
        return TokenizedText(ids, size, unknown)

    def complete_prefix(self, text: bytes) -> int:
        return len(text) if self.characters else super().complete_prefix(text)

    def decoder(self) -> Decoder:
        return (lambda id: self.symbols[id]) if self.characters else super().decoder()
