"""A run folder: held by one process at a time, and the result in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.errors import CheckpointError, ConfigError, shown
from rmt.seal import load_record

REMEDY = "delete it and run the command again"
MAX_NUMBER = 2.0**63  # of steps, seconds, or a perplexity; and not a number is above it, too
FIELDS: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "model": (str,),
    "recipe": (str,),
    "metric": (str,),
    "value": (float, int),
    "metrics": (dict,),
    "seed": (int,),
    "steps": (int,),
    "seconds": (float, int),
    "samples": (int,),
    "config": (dict,),
}  # of result.json, for readers of all kinds of run


class FolderInUse(ConfigError):
    """A run folder that another process holds."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a run folder for one process; the lock goes with the process, however that ends."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderInUse(
            f"out={str(folder)!r} is being trained by another process; wait for it, or name another --out"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def load_result(folder: Path) -> dict[str, Any]:
    """result.json of a run, or nothing while it is unfinished."""
    path = folder / "result.json"
    if not path.exists():
        return {}
    record = load_record(path, REMEDY)
    if reason := reason_no_result(record):
        raise CheckpointError(f"{str(path)!r} is damaged ({reason}); {REMEDY}")
    return record


def reason_no_result(record: Any) -> str:
    """Why something is not a result as every task writes it; nothing if it is one."""
    if not isinstance(record, dict):
        return "it holds no mapping"
    for name, kinds in FIELDS.items():
        if name not in record:
            return f"{name} is missing"
        value = record[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            return f"{name}={shown(value)} is no {kinds[0].__name__}"
        if not isinstance(value, (str, dict)) and not is_number(value):
            return f"{name}={shown(value)} is no number that can be measured"
    return ""


def is_number(value: object) -> bool:
    """Whether something is a number as results have them."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER
