"""tiles-CARD.json: constants of kernels that were measured on a card, for all later runs on it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError
from rmt.jsonfile import parse_json

FOLDER_VARIABLE = "RMT_TILES"  # names the folder


def tiles_path(card: str) -> Path:
    """Where the constants of a card are kept: in the folder of RMT_TILES, else in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rmt"
    folder = Path(os.environ.get(FOLDER_VARIABLE) or cache)
    return folder / f"tiles-{re.sub('[^a-z0-9]+', '-', card.lower()).strip('-')}.json"


def write_tiles(card: str, table: Mapping[str, Mapping[str, int]], environment: Mapping[str, Any]) -> Path:
    """Keep a table; the environment says what it was measured with."""
    path = tiles_path(card)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kernels = {name: dict(constants) for name, constants in table.items()}
        contents = {"card": card, "environment": dict(environment), "kernels": kernels}
        path.write_text(json.dumps(contents, indent=2) + "\n")
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written ({error.strerror}); name a folder with {FOLDER_VARIABLE}"
        ) from None
    return path


def load_tiles(card: str, table: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The table with what was measured on this card, where it was: no other kernels, no other constants."""
    chosen = {name: dict(constants) for name, constants in table.items()}
    path = tiles_path(card)
    if not path.exists():
        return chosen
    remedy = "measure again with rmt bench --tune, or delete it"
    try:
        measured = {
            name: dict(constants) for name, constants in parse_json(path.read_text())["kernels"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{str(path)!r} is not a table of tiles; {remedy}") from None
    for name, constants in measured.items():
        if name not in chosen or constants.keys() != chosen[name].keys():
            raise ConfigError(f"{str(path)!r} has {name}={constants}, which no kernel here takes; {remedy}")
        chosen[name] = constants
    return chosen
