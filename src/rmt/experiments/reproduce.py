"""Many runs, several at a time, each a process of its own; what is finished is not done again."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.experiments.suites import Run
from rmt.stopping import REQUEST, Stopped
from rmt.store import write_whole
from rmt.train.folder import load_result
from rmt.yamlfile import write_yaml

POLL_SECONDS = 0.2  # between looks at the processes
GRACE_SECONDS = 30.0  # for runs to save when the time is over, as much as torchrun and Slurm give

Process = tuple[Run, subprocess.Popen[bytes]]


class Ended(NamedTuple):
    """A run whose process has ended, with a result or without."""

    run: Run
    result: dict[str, Any]
    last_line: str  # of its log


def reproduce(
    runs: Sequence[Run],
    folder: Path,
    workers: int,
    seconds: float,
    report_ended: Callable[[Ended, int], None],
) -> list[dict[str, Any]]:
    """Train `runs` in folders of `folder`, `workers` at a time; returns the results there are.

    After `seconds` what still runs is stopped, and so it is by a signal: it saves and ends, and the same call
    goes on from there.
    """
    waiting, processes = list(runs), list[Process]()
    deadline, results = time.monotonic() + seconds, []
    try:
        with REQUEST.deferred():
            while (waiting or processes) and time.monotonic() < deadline and not REQUEST.signal:
                while waiting and len(processes) < workers:
                    run = waiting.pop(0)
                    processes.append((run, start(run, folder)))
                for run, process in [entry for entry in processes if entry[1].poll() is not None]:
                    processes.remove((run, process))
                    ended = Ended(run, load_result(folder / run.name), last_line(folder / f"{run.name}.log"))
                    results += [ended.result] if ended.result else []
                    report_ended(ended, len(waiting) + len(processes))
                time.sleep(POLL_SECONDS)
            stop(processes, REQUEST.signal or signal.SIGTERM, math.inf if REQUEST.signal else GRACE_SECONDS)
            if REQUEST.signal:
                saved = f"{len(results)} of {len(runs)} runs are finished, what ran is saved in {folder}"
                raise Stopped(REQUEST.signal, f"{saved}; the same command goes on")
    finally:
        for _, process in processes:
            process.kill()
            process.wait()
    return results


def stop(processes: Sequence[Process], number: int, seconds: float) -> None:
    """Ask processes to save and end, and wait for them, but no longer than so many seconds."""
    for _, process in processes:
        process.send_signal(number)
    deadline = time.monotonic() + seconds
    while any(process.poll() is None for _, process in processes) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def start(run: Run, folder: Path) -> subprocess.Popen[bytes]:
    """The process of a run; its settings and its log lie beside its folder.

    It is a group of its own: a terminal's Ctrl-C reaches it once, by the process that started it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / f"{run.name}.yaml"
    write_whole(settings, write_yaml(run.settings))
    command = [sys.executable, "-m", "rmt.experiments.worker", str(settings)]
    with (folder / f"{run.name}.log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, process_group=0)


def last_line(file: Path) -> str:
    lines = file.read_text().strip().splitlines()
    return lines[-1] if lines else ""
