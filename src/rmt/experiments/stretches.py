"""How long a cell takes: when its workers were at work, and where, unless one of them was killed."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rmt.experiments.cells import STRETCHES, WALL_SECONDS, seeds_of
from rmt.store import write_json
from rmt.train.folder import is_number

LEFT = "seconds.json"  # in a cell's folder, until it is finished
RUNS = "runs"  # how many the cell's record had when the stretch began: behind another record it is stale
DIGITS = 8  # of a device


class Stretch(NamedTuple):
    """A worker's work on a cell without a break."""

    device: str  # of a machine, by what tells it from others
    began: float  # seconds since 1970
    ended: float


@contextmanager
def timed(folder: Path, former: Mapping[str, Any]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Measure a stretch of work on a cell, of which `former` is the record so far.

    Gives what its record says of its time until now; nothing where nobody knows it, since a worker was
    killed or a record is of a release that did not count.
    """
    file, began, start = folder / LEFT, time.time(), time.monotonic()
    before, device = time_before(file, former), device_here()

    def spent() -> dict[str, Any]:
        seconds = time.monotonic() - start
        stretch = Stretch(device, round(began, 1), round(began + seconds, 1))
        return with_stretch(before, stretch, seconds)

    def write(time: Mapping[str, Any]) -> None:
        write_json(file, {RUNS: seeds_of(former), **time})

    folder.mkdir(parents=True, exist_ok=True)
    write({})  # which stays if this process is killed
    try:
        yield spent
    finally:
        write(spent())


def device_here() -> str:
    """What tells this process's device from others, and does not name it."""
    card = torch.cuda.get_device_properties().uuid if torch.cuda.is_available() else ""
    return hashlib.sha256(f"{platform.node()} {card}".encode()).hexdigest()[:DIGITS]


def time_before(file: Path, former: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the time of a record and of the stretches behind it."""
    recorded: Mapping[str, Any] = former or {WALL_SECONDS: 0.0, STRETCHES: []}
    left = load_left(file)
    known = left if left.get(RUNS) == seeds_of(former) else recorded
    return {name: known[name] for name in (WALL_SECONDS, STRETCHES) if name in known}


def with_stretch(before: Mapping[str, Any], stretch: Stretch, seconds: float) -> dict[str, Any]:
    """The time of a cell with another stretch, as far as it was known before."""
    after: dict[str, Any] = {}
    if is_number(before.get(WALL_SECONDS)):
        after[WALL_SECONDS] = before[WALL_SECONDS] + seconds
    if (stretches := stretches_of(before)) is not None:
        after[STRETCHES] = [*stretches, stretch]
    return after


def load_left(file: Path) -> dict[str, Any]:
    """What the last stretch left; nothing where there was none."""
    try:
        left = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return left if isinstance(left, dict) else {}


def stretches_of(record: Mapping[str, Any]) -> list[Stretch] | None:
    """The stretches that a record tells, if it tells them."""
    stretches = record.get(STRETCHES)
    if not isinstance(stretches, list) or not all(map(is_stretch, stretches)):
        return None
    return [Stretch(*stretch) for stretch in stretches]


def is_stretch(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != len(Stretch._fields):
        return False
    device, began, ended = value
    return isinstance(device, str) and is_number(began) and is_number(ended) and began <= ended


def occupied(stretches: Iterable[Stretch]) -> float:
    """For how long some of the stretches went on, device by device."""
    seconds = 0.0
    for _, of_device in groupby(sorted(stretches), attrgetter("device")):
        until = 0.0
        for _, began, ended in of_device:
            seconds += max(0.0, ended - max(began, until))
            until = max(until, ended)
    return seconds
