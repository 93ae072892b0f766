"""How long a cell takes in all: seconds of all stretches of its workers, unless one of them was killed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.experiments.cells import WALL_SECONDS, seeds_of
from rmt.store import write_json
from rmt.train.folder import is_number

STRETCHES = "seconds.json"  # in a cell's folder, until it is finished
RUNS = "runs"  # how many the cell's record had when the stretch began: behind another record it is stale


@contextmanager
def timed(folder: Path, former: Mapping[str, Any]) -> Iterator[Callable[[], float | None]]:
    """Measure a stretch of work on a cell, of which `former` is the record so far.

    Gives all of its seconds until now; none where nobody knows them, since a worker was killed or a record
    is of a release that did not count.
    """
    file, began = folder / STRETCHES, time.monotonic()
    before = seconds_before(file, former)

    def seconds() -> float | None:
        return None if before is None else before + time.monotonic() - began

    def write(value: float | None) -> None:
        write_json(file, {RUNS: seeds_of(former), WALL_SECONDS: value})

    folder.mkdir(parents=True, exist_ok=True)
    write(None)  # which stays if this process is killed
    try:
        yield seconds
    finally:
        write(seconds())


def seconds_before(file: Path, former: Mapping[str, Any]) -> float | None:
    """The seconds of a record and of the stretches behind it."""
    recorded = former.get(WALL_SECONDS) if former else 0.0
    stretch = load_stretch(file)
    if stretch.get(RUNS) == seeds_of(former):
        recorded = stretch.get(WALL_SECONDS)
    return float(recorded) if isinstance(recorded, (int, float)) and is_number(recorded) else None


def load_stretch(file: Path) -> dict[str, Any]:
    """What the last stretch left; nothing where there was none."""
    try:
        stretch = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stretch if isinstance(stretch, dict) else {}
