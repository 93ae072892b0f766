"""The one root error: everything the package raises on a user's mistake is an `RMTError`."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable


class RMTError(Exception):
    """A mistake a user can mend; the message is one line: field, value got, remedy."""

    exit_code = 2


class ConfigError(RMTError):
    """A configuration that cannot be meant: an unknown key, a bad value, two fields that disagree."""


class CheckpointError(RMTError):
    """A run folder that is damaged, incomplete or belongs to another configuration."""


class DataError(RMTError):
    """A corpus that is missing, damaged, incomplete or not the one it is said to be."""


def shown(value: object) -> str:
    """A value as a message names it: in one line, the middle of a long one left out."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxlong, short.maxother = 3, 100, 40, 100
    return short.repr(value)


def unknown(kind: str, got: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that does not exist, naming the nearest that does."""
    known = sorted(known)
    near = difflib.get_close_matches(got, known, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"choose from: {', '.join(known)}"
    return ConfigError(f"unknown {kind} {shown(got)}; {remedy}")
