"""The one root error: everything the package raises on a user's mistake is an `RMTError`.

Values in messages may come from a stranger's file: they are shortened and made printable here.
"""

from __future__ import annotations

import difflib
import reprlib
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

MOST_CHARACTERS = 1000  # of a message; its begin names the field, its end the remedy
MOST_BITS = 10_000  # of a whole number that is written out; Python refuses more than 14,284


class RMTError(Exception):
    """A mistake a user can mend; the message is one line: field, value got, remedy."""

    exit_code = 2

    def __str__(self) -> str:
        return printable(shortened(super().__str__()))


class ConfigError(RMTError):
    """A configuration that cannot be meant: an unknown key, a bad value, two fields that disagree."""


class CheckpointError(RMTError):
    """A run folder that is damaged, incomplete or belongs to another configuration."""


class DataError(RMTError):
    """A corpus that is missing, damaged, incomplete or not the one it is said to be."""


@contextmanager
def catching_panics() -> Iterator[None]:
    """Raise the panic of a library that is written in Rust as an Exception, which it is not."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # its module cannot be imported
            raise
        raise RuntimeError(str(error)) from None


class ShortRepr(reprlib.Repr):
    """Python's own words for a value, the middle of a long one left out."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong, self.maxother = 3, 100, 40, 100

    def repr_int(self, number: int, level: int) -> str:
        """Python itself refuses to write a number of more than 4,300 digits."""
        bits = number.bit_length()
        return super().repr_int(number, level) if bits <= MOST_BITS else f"<number of {bits:,} bits>"


def shown(value: object) -> str:
    """A value as a message names it: in one line, the middle of a long one left out."""
    return ShortRepr().repr(value)


def shortened(text: str) -> str:
    """A text of any length as one that can be read: the middle of a long one left out."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}...{text[-half:]}"


def printable(text: str, keep: str = "") -> str:
    """A text that cannot command a terminal: what is not printable, nor one to `keep`, stands as its code."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in keep or unicodedata.category(character) == "Zs"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def unknown(kind: str, got: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that does not exist, naming the nearest that does."""
    known = sorted(known)
    near = difflib.get_close_matches(got[:MOST_CHARACTERS], known, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"choose from: {', '.join(known)}"
    return ConfigError(f"unknown {kind} {shown(got)}; {remedy}")
