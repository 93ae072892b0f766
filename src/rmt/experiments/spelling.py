"""Values of settings as tables and legends show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

ABSENT = "–"  # a setting that a run does not have


def spellings(values: Sequence[Any]) -> list[str]:
    """Values as in a table or a legend; of paths that end alike, the whole."""
    short = list(map(spelled, values))
    whole = [value if is_path(value) else text for value, text in zip(values, short, strict=True)]
    endings = Counter(text for text, _ in set(zip(short, whole, strict=True)))
    return [path if endings[text] > 1 else text for text, path in zip(short, whole, strict=True)]


def is_path(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and "/" in value


def spelled(value: Any) -> str:
    """A setting's value in a table or a legend."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items()) or ABSENT
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or ABSENT
    if value is None or value == "":
        return ABSENT
    return Path(value).name if is_path(value) else str(value)
