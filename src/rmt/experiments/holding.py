"""Who has what: several commands share a folder of cells, and several workers the runs of a cell.

Each takes what is free. The worker that holds a cell writes its record; others only train runs of it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rmt.errors import RMTError
from rmt.train.folder import FolderInUse, locked

IN_USE = os.EX_TEMPFAIL  # a worker's exit code
LOOK_SECONDS = 1.0  # longer than a look whether a cell is held
POLL_SECONDS = 0.2

log = logging.getLogger(__name__)
Value = TypeVar("Value")


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


def shared(runs: Mapping[Path, Callable[[], Value]]) -> list[Value]:
    """What comes of the runs in some folders, in their order; what another process trains is waited for."""
    done: dict[Path, Value] = {}
    noted: set[str] = set()
    while left := [folder for folder in runs if folder not in done]:
        for folder in left:
            if not is_held(folder):
                with suppress(FolderInUse):  # another was quicker
                    done[folder] = runs[folder]()
        if held := [folder for folder in left if folder not in done]:
            note_held([folder.name for folder in held], noted)
            time.sleep(POLL_SECONDS)
    return [done[folder] for folder in runs]


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
