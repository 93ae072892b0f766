"""What a run leaves to read: metrics.jsonl, result.json, and the environment it ran in."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from rmt.jsonfile import json_lines
from rmt.store import append_line, write_whole

METRICS_FILE = "metrics.jsonl"
SOURCE = Path(__file__).parent.parent  # src/rmt
IMPORTED = time.monotonic()  # the nearest to a start where the system does not tell it


class Clock:
    """Seconds of training, for all runs that share it: it stands still while a model is measured."""

    def __init__(self) -> None:
        self.paused_seconds = 0.0

    def now(self) -> float:
        return time.perf_counter() - self.paused_seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.paused_seconds += time.perf_counter() - began


class MetricsLog:
    """metrics.jsonl: a line per logged step, a line per evaluation."""

    def __init__(self, run: Path):
        self.path = run / METRICS_FILE

    def write(self, record: dict[str, Any]) -> None:
        append_line(self.path, json.dumps(record))

    def records(self) -> list[dict[str, Any]]:
        """All lines so far, but for one that a crash has cut short."""
        return [json.loads(line) for line in self.lines() if place_of(line)[0] < math.inf]

    def lines(self) -> list[str]:
        """Each as it was written."""
        return (
            json_lines(self.path.read_text(encoding="utf-8", errors="replace")) if self.path.is_file() else []
        )

    def rewind(self, step: int, times_back: int = 0) -> None:
        """Drop what came after `step`, where a run had gone back so often: it is written again."""
        if not self.path.exists():
            return
        places = [(line, *place_of(line)) for line in self.lines()]
        kept = [line for line, at, back in places if at <= step and back <= times_back]
        write_whole(self.path, "".join(line + "\n" for line in kept))


def place_of(line: str) -> tuple[float, float]:
    """The step of a line, and how often its run had gone back; infinite where a crash has cut it short."""
    try:
        record = json.loads(line)
        return float(record["step"]), float(record.get("times_back", 0))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return math.inf, math.inf


def environment(device: torch.device) -> dict[str, Any]:
    """The machine and the versions a number was measured with."""
    return {
        "commit": commit(),
        "source": source_hash(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
    }


def commit() -> str:
    """The commit of the source tree; RMT_COMMIT names it where the history is not at hand.

    A package that is installed within somebody else's repository has none.
    """
    if "RMT_COMMIT" in os.environ:
        return os.environ["RMT_COMMIT"]
    try:
        git("ls-files", "--error-unmatch", __file__)
        return git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def git(*words: str) -> str:
    """What git says in the folder of the source."""
    command = ["git", "-C", str(SOURCE), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def source_hash() -> str:
    """Twelve digits of the SHA-256 of all files of the package, one behind the other, sorted by path."""
    files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    digest = hashlib.sha256()
    for path in sorted(files, key=Path.as_posix):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def version_of(package: str) -> str:
    """The version of a package that may not be installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def process_seconds() -> float:
    """Seconds since this process began; where the system does not tell, since this file was imported."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()  # from the third on
        started = int(fields[22 - 3]) / os.sysconf("SC_CLK_TCK")
        if started > 0:
            return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError, ValueError, IndexError):
        pass
    return time.monotonic() - IMPORTED


def processor() -> str:
    """The CPU in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
