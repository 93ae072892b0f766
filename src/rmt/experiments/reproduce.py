"""Many runs, some at a time, each a process of its own; what is finished is not done again."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.experiments.suites import Run
from rmt.train.folder import read_result

PAUSE = 0.2  # seconds between looks at the processes


class Ended(NamedTuple):
    """A run that has a result, or has none."""

    run: Run
    result: dict[str, Any]
    said: str  # its last line


def reproduce(
    runs: Sequence[Run],
    folder: Path,
    extra: Sequence[str],
    workers: int,
    seconds: float,
    heard: Callable[[Ended, int], None],
) -> list[dict[str, Any]]:
    """Train `runs` in folders of `folder`, `workers` at a time; returns the results there are.

    After `seconds` what still runs is stopped; the same call goes on from its last checkpoint.
    """
    waiting, going = list(runs), dict[Run, subprocess.Popen[str]]()
    end, results = time.monotonic() + seconds, []
    try:
        while (waiting or going) and time.monotonic() < end:
            while waiting and len(going) < workers:
                run = waiting.pop(0)
                going[run] = start(run, folder, extra)
            for run in [run for run, process in going.items() if process.poll() is not None]:
                del going[run]
                ended = Ended(run, read_result(folder / run.name), last_line(folder / f"{run.name}.log"))
                results += [ended.result] if ended.result else []
                heard(ended, len(waiting) + len(going))
            time.sleep(PAUSE)
    finally:
        for process in going.values():
            process.kill()
            process.wait()
    return results


def start(run: Run, folder: Path, extra: Sequence[str]) -> subprocess.Popen[str]:
    """The process of a run, which writes what it says beside its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "rmt.cli.main", "train", *shlex.split(run.arguments), *extra]
    with (folder / f"{run.name}.log").open("w") as log:
        return subprocess.Popen(
            [*command, "--out", str(folder / run.name)], stdout=log, stderr=subprocess.STDOUT, text=True
        )


def last_line(file: Path) -> str:
    lines = file.read_text().strip().splitlines()
    return lines[-1] if lines else ""
