"""Workers that are forked from this process: they need not load torch again."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

from rmt.experiments import worker
from rmt.experiments.launchers import ProcessJob


class ForkedJob(ProcessJob):
    """The worker that a command starts, without the command."""

    def __init__(self, command: Sequence[str], file: Path, environment: Mapping[str, str]):
        self.process = get_context("fork").Process(target=work, args=(file,))  # type: ignore[assignment]
        self.process.start()

    def ended(self) -> bool:
        return self.process.exitcode is not None

    def stop(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def work(file: Path) -> None:
    """What the process does, with its log where a launcher puts it."""
    with file.with_suffix(".log").open("a") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
        logging.basicConfig(format="%(message)s", stream=log, force=True)
        code = worker.main([str(file)])
    sys.exit(code)
