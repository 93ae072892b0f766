"""One run of a suite, in a process of its own: `python -m rmt.experiments.worker SETTINGS`.

SETTINGS is a YAML file, nested as a config file. The run is trained in the folder beside it that has its name
without the ending: `runs/copies/copy-3-rmt-0.yaml` in `runs/copies/copy-3-rmt-0`. Killed and started again,
it goes on. It exits as the command does: 0 when finished, 2 with one line on a user's mistake, 128 plus the
number of a signal that stopped it, 1 otherwise. When the process that started it is gone, it saves and ends.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError, RMTError
from rmt.experiments.recipe import resolve
from rmt.experiments.run import train
from rmt.stopping import Interrupted, hang_up_with_parent, listening
from rmt.train.folder import FolderInUse
from rmt.yamlfile import load_yaml

PATIENCE_SECONDS = 30.0  # for a worker whose command was killed to save and end
POLL_SECONDS = 0.2

log = logging.getLogger(__name__)


class LoggedRun:
    """An observer that writes a line per evaluation to the log."""

    def __init__(self) -> None:
        self.loss = float("nan")

    def note(self, text: str) -> None:
        log.info(text)

    def warning(self, text: str) -> None:
        log.warning(text)

    def logged(self, record: dict[str, Any]) -> None:
        self.loss = record["loss"]

    def evaluated(self, record: dict[str, Any]) -> None:
        scores = (f"{name} {value:.4f}" for name, value in record.items() if isinstance(value, float))
        log.info("step %d  training loss %.3f  %s", record["step"], self.loss, "  ".join(scores))

    def testing(self, done: int, total: int) -> None: ...


def main(arguments: Sequence[str]) -> int:
    """Train the run that the one argument names; returns the exit code."""
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    try:
        if len(arguments) != 1:
            raise ConfigError(f"expected one argument, a file of settings, got {len(arguments)}")
        with listening():
            hang_up_with_parent()
            patiently(lambda: work(Path(arguments[0])))
        return 0
    except RMTError as error:
        log.error("rmt: %s", error)
        return error.exit_code
    except Interrupted as error:
        log.error("rmt: %s; started again, the run goes on", error)
        return error.exit_code
    except OSError as error:
        log.error("rmt: %s", error)
        return 2


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


def work(file: Path) -> None:
    """Train the run whose settings are in `file`, in the folder beside it."""
    folder = file.with_suffix("")
    if folder == file:
        raise ConfigError(f"settings {str(file)!r} must be a file with the ending .yaml")
    result, was_finished = train(resolve(load_yaml(file)), folder, LoggedRun())
    log.info("%s: %s", "already finished" if was_finished else "finished", folder)
    log.info("%s %.4f on the test split", result["metric"], result["value"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
