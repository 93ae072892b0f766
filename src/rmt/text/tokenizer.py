"""Text to token ids and back for a task: by a corpus's vocabulary, or by how the task writes its tokens."""

from __future__ import annotations

import codecs
from typing import Any

from rmt.errors import ConfigError, DataError
from rmt.tasks.task import Task
from rmt.tasks.tokenizer import Speaker, TaskTokenizer, WordTokenizer
from rmt.text.task import Text
from rmt.text.vocabulary import Bytes, Characters, Tokenizer, Vocabulary, Words

CONTEXT = 8  # tokens that a token's text can depend on
LONGEST_CHARACTER = 4  # bytes


class ByteTokenizer(TaskTokenizer):
    """A byte is a token; text is UTF-8."""

    def __init__(self, vocabulary: Bytes):
        self.vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        return known(self.vocabulary, text.encode("utf-8", "surrogateescape"))

    def whole(self, text: bytes) -> int:
        return len(text)

    def speaker(self) -> Speaker:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda id: decoder.decode(bytes([self.vocabulary.symbols[id]]))


class CharacterTokenizer(TaskTokenizer):
    """A character is a token."""

    def __init__(self, vocabulary: Characters):
        self.vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        try:
            return known(self.vocabulary, text)
        except UnicodeEncodeError:
            raise DataError("the text is not UTF-8; this model reads characters") from None

    def whole(self, text: bytes) -> int:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(text)
        return len(text) - len(decoder.getstate()[0])

    def speaker(self) -> Speaker:
        return lambda id: self.vocabulary.symbols[id]


class LineTokenizer(TaskTokenizer):
    """A tokenizer of the `tokenizers` library, which sees one line at a time."""

    def __init__(self, vocabulary: Tokenizer):
        self.vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        return [int(id) for id in self.vocabulary.encode(text).ids]

    def whole(self, text: bytes) -> int:
        return 1 + text.rfind(b"\n")

    def speaker(self) -> Speaker:
        """A token adds what the text of the last few has more with it than without it."""
        spoken: list[int] = []
        waiting: list[int] = []  # parts of a character

        def speak(id: int) -> str:
            waiting.append(id)
            before, after = self.vocabulary.decode(spoken), self.vocabulary.decode([*spoken, *waiting])
            if after.endswith("\ufffd") and len(waiting) < LONGEST_CHARACTER:
                return ""
            spoken[:] = [*spoken, *waiting][-CONTEXT:]
            waiting.clear()
            return after[len(before) :]

        return speak


def tokenizer_of(task: Task | Text) -> TaskTokenizer:
    """The tokenizer of a task: its own, its corpus's, the symbols it is shown with, or plain ids."""
    if isinstance(task, Text):
        return of_vocabulary(task.corpus.vocabulary())
    if isinstance(task, TaskTokenizer):
        return task
    symbols = [task.render([id]) for id in range(task.vocabulary)]
    if len(set(symbols)) < len(symbols) or any(len(symbol.split()) != 1 for symbol in symbols):
        symbols = [str(id) for id in range(task.vocabulary)]
    return WordTokenizer(symbols, lines=False)


def of_vocabulary(vocabulary: Vocabulary) -> TaskTokenizer:
    """The tokenizer of a prepared corpus's vocabulary."""
    if isinstance(vocabulary, Words):
        return WordTokenizer(vocabulary.symbols, lines=True)
    if isinstance(vocabulary, Characters):
        return CharacterTokenizer(vocabulary)
    if isinstance(vocabulary, Bytes):
        return ByteTokenizer(vocabulary)
    if isinstance(vocabulary, Tokenizer):
        return LineTokenizer(vocabulary)
    raise ConfigError(f"a vocabulary of {vocabulary.kind} has no tokenizer")


def known(vocabulary: Any, text: Any) -> list[int]:
    """The ids of a text by a vocabulary of codes; a symbol it does not have is an error."""
    codes = vocabulary.codes(text)
    ids = vocabulary.ids[codes]
    if ids.size and ids.min() < 0:
        symbol = vocabulary.symbol(int(codes[ids.argmin()]))
        raise DataError(
            f"{vocabulary.kind[:-1]} {symbol!r} is not in the model's vocabulary: the text it was trained on "
            "does not have it; replace it, or train on a text that does"
        )
    return [int(id) for id in ids]
