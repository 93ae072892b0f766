"""Tokenizers of text: by a vocabulary of bytes, of characters, or of the tokenizers library."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, cast

from rmt.errors import CheckpointError, ConfigError, DataError
from rmt.jsonfile import parse_json
from rmt.location import class_at, require_trust
from rmt.store import write_whole
from rmt.tasks.babi import HashedWordTokenizer
from rmt.tasks.tokenizer import Decoder, SymbolTokenizer, TaskTokenizer, WordTokenizer
from rmt.tasks.unknown import TokenizedText
from rmt.text.codes import Bytes, Characters
from rmt.text.library import LibraryTokens
from rmt.text.vocabulary import FILE, UnknownSymbol, Vocabulary

CONTEXT = 8  # tokens that a token's text can depend on
LONGEST_CHARACTER = 4  # bytes
LINE_END = "↵"  # as a reader sees it
LIBRARY_FILE = "tokenizer.json"  # what the tokenizers library reads and writes


class VocabularyTokenizer(TaskTokenizer):
    """Tokens are what a vocabulary of text makes of it."""

    vocabulary: Vocabulary

    def tokenize(self, text: bytes) -> TokenizedText:
        try:
            ids, unknown = self.vocabulary.encode(self.block(text), self.rule)
        except UnknownSymbol as error:
            ids, unknown = self.vocabulary.encode(self.block(text[: error.size]))
            return TokenizedText(ids.tolist(), error.size, unknown, error.problem)
        return TokenizedText(ids.tolist(), len(text), unknown)

    def block(self, text: bytes) -> Any:
        """A text as the vocabulary takes it: as characters, a byte that is not UTF-8 as a lone surrogate."""
        return text.decode("utf-8", "surrogateescape")

    def find(self, symbol: str) -> int | None:
        return self.vocabulary.find(symbol)

    def content(self) -> dict[str, Any]:
        return {"symbols": self.vocabulary.symbols}


class ByteTokenizer(VocabularyTokenizer):
    """A byte is a token; text is UTF-8."""

    kind = "bytes"

    def __init__(self, vocabulary: Bytes):
        self.vocabulary = vocabulary

    @classmethod
    def restore(cls, content: dict[str, Any]) -> Self:
        return cls(Bytes(content["symbols"]))

    def block(self, text: bytes) -> bytes:
        return text

    def complete_prefix(self, text: bytes) -> int:
        return len(text)

    def decoder(self) -> Decoder:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda id: decoder.decode(bytes([self.vocabulary.symbols[id]]))

    def shown(self) -> list[str]:
        """Printable ASCII as it is, a line's end as a sign, other bytes by their value."""
        return [
            chr(byte) if 32 <= byte < 127 else LINE_END if byte == ord("\n") else f"\\x{byte:02x}"
            for byte in self.vocabulary.symbols
        ]


class CharacterTokenizer(VocabularyTokenizer):
    """A character is a token."""

    kind = "characters"

    def __init__(self, vocabulary: Characters):
        self.vocabulary = vocabulary

    @classmethod
    def restore(cls, content: dict[str, Any]) -> Self:
        return cls(Characters(content["symbols"]))

    def complete_prefix(self, text: bytes) -> int:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(text)
        return len(text) - len(decoder.getstate()[0])

    def decoder(self) -> Decoder:
        return lambda id: str(self.vocabulary.symbols[id])

    def shown(self) -> list[str]:
        return [
            LINE_END if symbol == "\n" else symbol if symbol.isprintable() else repr(symbol)[1:-1]
            for symbol in self.vocabulary.symbols
        ]


class LineTokenizer(VocabularyTokenizer):
    """A tokenizer of the `tokenizers` library, which sees one line at a time."""

    kind = "tokenizer"
    vocabulary: LibraryTokens

    def __init__(self, vocabulary: LibraryTokens):
        self.vocabulary = vocabulary

    def complete_prefix(self, text: bytes) -> int:
        return 1 + text.rfind(b"\n")

    def decoder(self) -> Decoder:
        """A token adds what the text of the last few has more with it than without it."""
        recent: list[int] = []
        waiting: list[int] = []  # parts of a character

        def decode(id: int) -> str:
            waiting.append(id)
            before, after = self.vocabulary.decode(recent), self.vocabulary.decode([*recent, *waiting])
            if after.endswith("\ufffd") and len(waiting) < LONGEST_CHARACTER:
                return ""
            recent[:] = [*recent, *waiting][-CONTEXT:]
            waiting.clear()
            return after[len(before) :]

        return decode

    def shown(self) -> list[str]:
        return [symbol or "" for symbol in self.vocabulary.symbols]

    def content(self) -> dict[str, Any]:
        return {"text": self.vocabulary.text}

    @classmethod
    def restore(cls, content: dict[str, Any]) -> Self:
        return cls(LibraryTokens(content["text"]))


BY_VOCABULARY: dict[str, Callable[[Any], TaskTokenizer]] = {
    "words": lambda vocabulary: WordTokenizer(vocabulary.symbols),
    "bytes": ByteTokenizer,
    "characters": CharacterTokenizer,
    "tokenizer": LineTokenizer,
}
KINDS: dict[str, type[TaskTokenizer]] = {
    kind.kind: kind
    for kind in (
        WordTokenizer,
        ByteTokenizer,
        CharacterTokenizer,
        LineTokenizer,
        SymbolTokenizer,
        HashedWordTokenizer,
    )
}


def of_vocabulary(vocabulary: Vocabulary) -> TaskTokenizer:
    """The tokenizer of a corpus's vocabulary."""
    return BY_VOCABULARY[vocabulary.kind](vocabulary)


def write_tokenizer(folder: Path, tokenizer: TaskTokenizer) -> None:
    """Put a tokenizer into a run folder: `vocabulary.json`, or `tokenizer.json` as its library has it."""
    content = tokenizer.content()
    if isinstance(tokenizer, LineTokenizer):
        write_whole(folder / LIBRARY_FILE, content["text"].encode())
        return
    cls = type(tokenizer)
    kind = cls.kind if KINDS.get(cls.kind) is cls else f"{cls.__module__}:{cls.__qualname__}"
    text = json.dumps({"tokens": kind, **content}, ensure_ascii=False)
    write_whole(folder / FILE, text + "\n")


def tokenizer_file(folder: Path) -> Path:
    """The file of a run folder's tokenizer, whether it is there or not."""
    return folder / (LIBRARY_FILE if (folder / LIBRARY_FILE).is_file() else FILE)


def has_tokenizer(folder: Path) -> bool:
    """Whether a run folder holds its tokenizer; those of release 0.1.0 do not."""
    return tokenizer_file(folder).is_file()


def load_tokenizer(folder: Path) -> TaskTokenizer:
    """The tokenizer in a run folder."""
    file = tokenizer_file(folder)
    try:
        if file.name == LIBRARY_FILE:
            return LineTokenizer(LibraryTokens(file.read_bytes().decode()))
        content = parse_json(file.read_text(encoding="utf-8"))
        kind = content["tokens"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise damaged(file, error) from None
    require_trust(str(kind), "tokens", file)
    try:
        return kind_of(kind).restore(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError, DataError) as error:
        raise damaged(file, error) from None


def damaged(file: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{str(file)!r} is damaged ({error}); copy it from another copy of the run")


def kind_of(name: str) -> type[TaskTokenizer]:
    """A kind of tokenizer, or the class of a task of one's own, as `module:Class`."""
    if name in KINDS:
        return KINDS[name]
    return cast(type[TaskTokenizer], class_at(name, TaskTokenizer, "rmt.tasks.tokenizer", f"tokens={name!r}"))
