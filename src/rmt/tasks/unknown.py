"""What becomes of a symbol that a vocabulary does not have: an error, nothing, or another symbol."""

from __future__ import annotations

from typing import Literal, NamedTuple

from rmt.errors import ConfigError

RULES = "error, skip or replace:SYMBOL"
REMEDY = "go past it with --unknown skip, or with --unknown replace:SYMBOL"


class UnknownRule(NamedTuple):
    """`error`, `skip`, or `replace` by a symbol that the vocabulary has."""

    rule: Literal["error", "skip", "replace"] = "error"
    symbol: str = ""

    @classmethod
    def parse(cls, text: str) -> UnknownRule:
        """The rule that `error`, `skip` or `replace:SYMBOL` names."""
        if text == "error":
            return cls("error")
        if text == "skip":
            return cls("skip")
        name, colon, symbol = text.partition(":")
        if name == "replace" and colon and symbol:
            return cls("replace", symbol)
        raise ConfigError(f"unknown={text!r} is not {RULES}, such as replace:?")


class TokenizedText(NamedTuple):
    """The ids of a text, up to the first symbol that stops them."""

    ids: list[int]
    size: int  # bytes of the text that they stand for
    unknown: int = 0  # symbols that were skipped, replaced, or became <unk>
    problem: str = ""  # the symbol that follows, in words, where the rule is an error
