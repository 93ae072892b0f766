"""How long a cell takes: when its workers were at work, and where, unless one of them was killed."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import torch

from rmt.experiments.cells import STRETCHES, WALL_SECONDS, seeds_of
from rmt.experiments.holding import is_held
from rmt.store import write_json
from rmt.train.folder import is_number, locked

FILES = "seconds*.json"  # in a cell's folder, one of each stretch, until it is finished
RUNS = "runs"  # how many the cell's record had when the stretch began: behind another record it is stale
BEGAN = "began"  # of a stretch that goes on, or was killed
DIGITS = 8  # of a device, and of a stretch's name


class Stretch(NamedTuple):
    """A worker's work on a cell without a break."""

    device: str  # of a machine, by what tells it from others
    began: float  # seconds since 1970
    ended: float


@contextmanager
def timed(folder: Path, former: Mapping[str, Any]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Measure a stretch of work on a cell, of which `former` is the record so far.

    Gives what its record says of its time until now, that of other workers counted in; nothing where nobody
    knows it, since a worker was killed or a record is of a release that did not count.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILES.replace("*", f"-{uuid4().hex[:DIGITS]}")
    began, start, runs = time.time(), time.monotonic(), {RUNS: seeds_of(former)}
    device = device_here()

    def stretch() -> Stretch:
        return Stretch(device, round(began, 1), round(began + time.monotonic() - start, 1))

    write_json(file, runs | {BEGAN: stretch()})
    with locked(file):
        try:
            yield lambda: time_of([[stretch()], *of_others(folder, file, former)], former)
        finally:
            if file.exists():  # else the cell has its record
                write_json(file, runs | {STRETCHES: [stretch()]})


def of_others(folder: Path, besides: Path, former: Mapping[str, Any]) -> Iterator[list[Stretch] | None]:
    """The stretches of other workers behind the record so far; nothing of one that was killed."""
    for file in sorted(set(folder.glob(FILES)) - {besides}):
        goes_on, left = is_held(file), load_left(file)
        if left.get(RUNS) != seeds_of(former):
            continue
        known = stretches_of(left)
        if known is None and goes_on and is_stretch(left.get(BEGAN)):
            known = [Stretch(*left[BEGAN])._replace(ended=round(time.time(), 1))]
        yield known


def time_of(stretches: Iterable[list[Stretch] | None], former: Mapping[str, Any]) -> dict[str, Any]:
    """The time of a record and of the stretches behind it, as far as it is known."""
    known = [*stretches]
    if None in known:
        return {}
    new = [*chain.from_iterable(part for part in known if part)]
    recorded: Mapping[str, Any] = former or {WALL_SECONDS: 0.0, STRETCHES: []}
    after: dict[str, Any] = {}
    if is_number(recorded.get(WALL_SECONDS)):
        after[WALL_SECONDS] = recorded[WALL_SECONDS] + sum(part.ended - part.began for part in new)
    if (before := stretches_of(recorded)) is not None:
        after[STRETCHES] = [*before, *new]
    return after


def forget(folder: Path) -> None:
    """Delete what is known of stretches: the record has it."""
    for file in folder.glob(FILES):
        file.unlink(missing_ok=True)


def device_here() -> str:
    """What tells this process's device from others, and does not name it."""
    card = torch.cuda.get_device_properties().uuid if torch.cuda.is_available() else ""
    return hashlib.sha256(f"{platform.node()} {card}".encode()).hexdigest()[:DIGITS]


def load_left(file: Path) -> dict[str, Any]:
    """What a stretch left; nothing where it is damaged or gone."""
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
