"""A cell is one worker's at a time: several commands share a folder, each taking cells that are free."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmt.errors import RMTError
from rmt.train.folder import FolderInUse, locked

IN_USE = os.EX_TEMPFAIL  # a worker's exit code
PATIENCE_SECONDS = 30.0  # for a run that another process still saves
LOOK_SECONDS = 1.0  # longer than a look whether a cell is held
POLL_SECONDS = 0.2


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


def is_held(folder: Path) -> bool:
    """Whether a worker has the cell in a folder."""
    try:
        with locked(folder):
            return False
    except FileNotFoundError:
        return False
    except FolderInUse:
        return True


def patiently(action: Callable[[], None], seconds: float = PATIENCE_SECONDS) -> None:
    """Do what needs a run folder; while another process has it, such as one that still saves, try again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except FolderInUse:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS)
