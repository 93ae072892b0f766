"""Who has what: several commands share a folder of cells, and several workers the runs of a cell.

Each takes what is free. The worker that holds a cell waits for the runs of others and writes its record.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from rmt.errors import RMTError
from rmt.train.folder import FolderInUse, locked

IN_USE = os.EX_TEMPFAIL  # a worker's exit code
LOOK_SECONDS = 1.0  # longer than a look whether a cell is held
POLL_SECONDS = 0.2

log = logging.getLogger(__name__)
NewObserver = Callable[[str], Any]  # of the name of a run


class CellInUse(RMTError):
    """A cell that another worker has."""


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Have the folder of a cell for this worker alone, as long as it lives."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as lock:
        try:
            patiently(lambda: lock.enter_context(locked(folder)), LOOK_SECONDS)
        except FolderInUse as error:
            raise CellInUse(str(error)) from None
        yield


class RunPart(NamedTuple):
    """Runs that one worker trains together, or a single one."""

    folders: Sequence[Path]
    train: Callable[[], Any]


def shared(parts: Sequence[RunPart], waits: bool) -> list[Any]:
    """What comes of each part, in their order; those that other workers train are waited for, or left."""
    done: dict[int, Any] = {}
    noted: set[str] = set()
    while left := [number for number in range(len(parts)) if number not in done]:
        for number in left:
            if not any(map(is_held, parts[number].folders)):
                with suppress(FolderInUse):  # another was quicker
                    done[number] = parts[number].train()
        if done.keys() & left:  # meanwhile others may be free
            continue
        names = [parts[number].folders[0].name for number in left]
        if not waits:
            raise CellInUse(f"others train {', '.join(names)}")
        note_held(names, noted)
        time.sleep(POLL_SECONDS)
    return [done[number] for number in range(len(parts))]


def note_held(names: Iterable[str], noted: set[str]) -> None:
    """Say, once of each, that other workers have these."""
    for name in names:
        if name not in noted:
            noted.add(name)
            log.info("%s: another worker has it, and is waited for", name)


def is_held(folder: Path) -> bool:
    """Whether a worker has the cell, or the run, in a folder."""
    try:
        with locked(folder):
            return False
    except FileNotFoundError:
        return False
    except FolderInUse:
        return True


def patiently(action: Callable[[], None], seconds: float) -> None:
    """Do what needs a folder; while another process has it, if only for a look, try again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except FolderInUse:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS)
