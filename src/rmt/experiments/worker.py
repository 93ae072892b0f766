"""A cell in a process of its own: `python -m rmt.experiments.worker SETTINGS`.

SETTINGS is a YAML file, a planned cell: settings as in a config file, rates, seeds. It is trained in the
folder beside it that has its name without the ending: `runs/tiny/copy-4-3-rmt-4.yaml` in
`runs/tiny/copy-4-3-rmt-4`. Killed and started again, it goes on, and no finished run is trained again. Where
another worker has the cell, this one trains runs of it as long as some are free. It exits as the command
does: 0 when the cell is finished, 2 with one line on a user's mistake, 128 plus the number of a signal that
stopped it, 1 otherwise; 75 where the rest is left to the other worker. When the process that started it is
gone, it saves and ends.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError, RMTError
from rmt.experiments.cells import RECORD, PlannedCell, load_cell, record_of, recorded_so_far
from rmt.experiments.holding import IN_USE, CellInUse, holding
from rmt.experiments.outcome import outcome, take_part
from rmt.experiments.stretches import forget, timed
from rmt.seal import sealed
from rmt.stopping import Interrupted, handling_signals, hang_up_with_parent, reraising_interruptions
from rmt.store import write_json

log = logging.getLogger(__name__)


class LoggedRun:
    """An observer that writes a line per evaluation to the log, with the name of the run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loss = float("nan")

    def note(self, text: str) -> None:
        log.info("%s  %s", self.name, text)

    def warning(self, text: str) -> None:
        log.warning("%s  %s", self.name, text)

    def begin(self, steps: int) -> None: ...

    def logged(self, record: dict[str, Any]) -> None:
        self.loss = record["loss"]

    def evaluated(self, record: dict[str, Any]) -> None:
        scores = (f"{name} {value:.4f}" for name, value in record.items() if isinstance(value, float))
        self.note(f"step {record['step']}  training loss {self.loss:.3f}  {'  '.join(scores)}")

    def testing(self, done: int, total: int) -> None: ...


def main(arguments: Sequence[str]) -> int:
    """Train the cell that the one argument names; returns the exit code."""
    logging.basicConfig(format="%(message)s")
    for logger in (log, logging.getLogger("rmt.experiments")):
        logger.setLevel(logging.INFO)
    try:
        if len(arguments) != 1:
            raise ConfigError(f"expected one argument, a file of settings, got {len(arguments)}")
        with handling_signals(), reraising_interruptions():
            hang_up_with_parent()
            work(Path(arguments[0]))
        return 0
    except CellInUse:
        return IN_USE
    except RMTError as error:
        log.error("rmt: %s", error)
        return error.exit_code
    except Interrupted as error:
        log.error("rmt: %s; started again, the run goes on", error)
        return error.exit_code
    except OSError as error:
        log.error("rmt: %s", error)
        return 2


def work(file: Path) -> None:
    """Train the cell in `file`, in the folder beside it, and write down what came out."""
    folder = file.with_suffix("")
    if folder == file:
        raise ConfigError(f"settings {str(file)!r} must be a file with the ending .yaml")
    cell = load_cell(file)
    try:
        with holding(folder):
            train_cell(cell, folder)
    except CellInUse:
        train_beside(cell, folder)
        with holding(folder):  # the other has gone before it had finished
            train_cell(cell, folder)


def train_beside(cell: PlannedCell, folder: Path) -> None:
    """Train runs of a cell that another worker has, until none is left."""
    with timed(folder, recorded_so_far(cell, folder.parent)):
        take_part(cell, folder, LoggedRun)


def train_cell(cell: PlannedCell, folder: Path) -> None:
    """Train a cell in its folder, unless that is done, and log what came out."""
    if record := record_of(cell, folder.parent):
        log.info("already finished: %s", folder)
    else:
        with timed(folder, recorded_so_far(cell, folder.parent)) as spent:
            record = outcome(cell, folder, LoggedRun)
            write_json(folder / RECORD, sealed(record | spent()))
        forget(folder)
        log.info("finished: %s", folder)
    values = ", ".join(f"{run['value']:.4f}" for run in record["runs"])
    chosen = "" if record["rate"] is None else f", {cell.rate_of} {record['rate']:g}"
    log.info("%s %s on the test split%s", record["metric"], values, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
