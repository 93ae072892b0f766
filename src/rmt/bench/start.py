"""Whole commands, timed from outside: how long a user waits for the first update, and for the result."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rmt.bench.measure import Row, spread
from rmt.errors import RMTError
from rmt.train.log import SOURCE

STARTS = {"cold": 1, "warm": 3}  # starts timed: without any compiled kernel, and with those of the first
# where Triton, Inductor and the CUDA driver keep what they compiled
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")


class Start(NamedTuple):
    """Seconds after the start of a command."""

    first_update: float  # as the process itself tells in its result
    end: float


def start_rows(name: str, command: Sequence[str]) -> Iterator[Row]:
    """A command that trains, in a new folder each time: its first update and its end, cold and warm."""
    with tempfile.TemporaryDirectory() as caches:
        for label, count in STARTS.items():
            starts = [timed(command, Path(caches)) for _ in range(count)]
            yield Row(name, f"first update, {label}", spread([start.first_update for start in starts]))
            yield Row(name, f"whole command, {label}", spread([start.end for start in starts]))


def timed(command: Sequence[str], caches: Path) -> Start:
    """Run a command that leaves runs/NAME/result.json where it is started."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=surroundings(caches), capture_output=True, text=True, check=False
        )
        end = time.perf_counter() - began
        results = list(Path(folder).glob("runs/*/result.json"))
        if done.returncode or len(results) != 1:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
            raise RMTError(
                f"{' '.join(command)} exited with {done.returncode} and left {len(results)} results "
                f"({last[0]}); mend it, and measure again"
            )
        return Start(json.loads(results[0].read_text())["first_update_seconds"], end)


def surroundings(caches: Path) -> Mapping[str, str]:
    """The environment of a command: this very source, compiled kernels in folders of their own."""
    paths = [str(SOURCE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    folders = {name: str(caches / name.lower()) for name in CACHES}
    return {**os.environ, **folders, "PYTHONPATH": os.pathsep.join(paths)}
