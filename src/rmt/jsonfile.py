"""JSON of a file that somebody else may have written."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says; what is wrong with it, also that it is nested too deeply, is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def json_lines(text: str) -> list[str]:
    """The lines of JSONL, which only a line feed ends: what else Unicode calls one may stand in a string."""
    *lines, last = text.split("\n")
    return [*lines, last] if last else lines
