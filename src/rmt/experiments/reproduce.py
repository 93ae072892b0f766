"""Many cells, several at a time, each a worker's; what is finished is not done again."""

from __future__ import annotations

import logging
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.experiments.cells import PlannedCell, record_of, write_cell
from rmt.experiments.holding import POLL_SECONDS, is_held, note_held
from rmt.experiments.launchers import NO_JOB, Job, WorkerLauncher
from rmt.experiments.runs_left import runs_left
from rmt.stopping import REQUEST, Stopped

GRACE_SECONDS = 30.0  # for workers to save when the time is over, as much as torchrun and Slurm give


log = logging.getLogger(__name__)


class Ended(NamedTuple):
    """A cell whose worker has ended, with a record or without."""

    cell: PlannedCell
    record: dict[str, Any]
    last_line: str  # of its log


class Limits(NamedTuple):
    """How many workers at a time, and for how long."""

    workers: int = 1
    seconds: float = math.inf


def reproduce(
    cells: Sequence[PlannedCell],
    folder: Path,
    launcher: WorkerLauncher,
    limits: Limits,
    report_ended: Callable[[Ended, int], None],
) -> list[dict[str, Any]]:
    """Train `cells` in folders of `folder`; returns the records there are.

    Workers without a cell of their own train runs of the others'. A cell that a worker of another command
    has is waited for. After `limits.seconds` what still runs is stopped, and so it is by a signal: it saves
    and ends, and the same call goes on from there.
    """
    waiting = [cell for cell in cells if not record_of(cell, folder)]
    jobs: list[tuple[PlannedCell, Job]] = []
    helpers: Counter[str] = Counter()  # that were started, by cell
    noted: set[str] = set()
    deadline = time.monotonic() + limits.seconds
    try:
        with REQUEST.deferred():
            while (waiting or jobs) and time.monotonic() < deadline and not REQUEST.signal:
                while len(jobs) < limits.workers and (free := free_cell(waiting, folder)):
                    waiting.remove(free)
                    jobs.append((free, started(free, folder, launcher)))
                while len(jobs) < limits.workers and (
                    helped := least_helped([cell for cell, _ in jobs], folder, helpers)
                ):
                    helpers[helped.name] += 1
                    jobs.append((helped, started(helped, folder, launcher)))
                if not jobs:
                    note_held((cell.name for cell in waiting), noted)
                for cell, job in [entry for entry in jobs if entry[1].ended()]:
                    jobs.remove((cell, job))
                    going_on = {other.name for other, _ in jobs}
                    if cell.name in going_on:
                        continue
                    held_elsewhere = is_held(folder / cell.name)  # asked before its record, which may come
                    ended = ended_cell(cell, folder)
                    if not ended.record and held_elsewhere:
                        waiting.append(cell)
                    else:
                        report_ended(ended, len(waiting) + len(going_on))
                time.sleep(POLL_SECONDS)
            stop([job for _, job in jobs], REQUEST.signal or signal.SIGTERM, bool(REQUEST.signal))
            records = [record for cell in cells if (record := record_of(cell, folder))]
            if REQUEST.signal:
                saved = f"{len(records)} of {len(cells)} cells are finished, what ran is saved in {folder}"
                raise Stopped(REQUEST.signal, f"{saved}; the same command goes on")
    finally:
        for _, job in jobs:
            job.kill()
    return records


def free_cell(cells: Iterable[PlannedCell], folder: Path) -> PlannedCell | None:
    """The first that no worker has, of any command."""
    return next((cell for cell in cells if not is_held(folder / cell.name)), None)


def least_helped(
    at_work: Sequence[PlannedCell], folder: Path, helpers: Mapping[str, int]
) -> PlannedCell | None:
    """Of cells at work, one for each worker, that with fewest of them where another could train a run."""
    workers = Counter(cell.name for cell in at_work)

    def could_help(cell: PlannedCell) -> bool:
        left = runs_left(cell, folder / cell.name)
        has_tries = helpers[cell.name] < len(cell.rates) + cell.seeds  # else they fail again and again
        return has_tries and len(left) > workers[cell.name] and not all(map(is_held, left))

    return min(filter(could_help, at_work), key=lambda cell: workers[cell.name], default=None)


def started(cell: PlannedCell, folder: Path, launcher: WorkerLauncher) -> Job:
    """The worker of a cell, unless another command has finished it by now."""
    return NO_JOB if record_of(cell, folder) else launcher.start(write_cell(cell, folder))


def ended_cell(cell: PlannedCell, folder: Path) -> Ended:
    return Ended(cell, record_of(cell, folder), last_line(folder / f"{cell.name}.log"))


def stop(jobs: Sequence[Job], number: int, patiently: bool) -> None:
    """Ask workers to save and end, and wait for them: as long as it takes, or for some seconds."""
    for job in jobs:
        job.stop(number)
    deadline = time.monotonic() + (math.inf if patiently else GRACE_SECONDS)
    while not all(job.ended() for job in jobs) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def last_line(file: Path) -> str:
    text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
