"""Text to token ids and back: what a session and the command line need of a vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from rmt.errors import DataError

Speaker = Callable[[int], str]
END, UNKNOWN = "<eos>", "<unk>"


class TaskTokenizer(ABC):
    """What a session and the command line need of a vocabulary."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text; bytes that are no UTF-8 come as lone surrogates."""

    @abstractmethod
    def whole(self, text: bytes) -> int:
        """How many bytes at the start of a text can be encoded apart from what follows."""

    @abstractmethod
    def speaker(self) -> Speaker:
        """A function that gets ids one by one and returns what each adds to the text."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        return "".join(map(self.speaker(), ids))


class WordTokenizer(TaskTokenizer):
    """Words between white space; a line break is a token where the vocabulary has one."""

    def __init__(self, symbols: list[str], lines: bool):
        self.symbols = symbols
        self.ids = {word: id for id, word in enumerate(symbols)}
        self.lines = lines

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for number, line in enumerate(text.split("\n")):
            if number and self.lines:
                ids.append(self.ids[END])
            ids += [self.id_of(word) for word in line.split()]
        return ids

    def id_of(self, word: str) -> int:
        id = self.ids.get(word, self.ids.get(UNKNOWN))
        if id is None:
            some = ", ".join(repr(symbol) for symbol in self.symbols[:8])
            raise DataError(
                f"{word!r} is not one of the {len(self.symbols)} tokens that the model knows: {some}, …"
            )
        return id

    def whole(self, text: bytes) -> int:
        return 1 + max(text.rfind(space) for space in (b" ", b"\n", b"\t", b"\r"))

    def speaker(self) -> Speaker:
        at_start = True

        def speak(id: int) -> str:
            nonlocal at_start
            ends_line = self.lines and self.symbols[id] == END
            text = "\n" if ends_line else self.symbols[id] if at_start else " " + self.symbols[id]
            at_start = ends_line
            return text

        return speak
