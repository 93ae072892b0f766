"""A run folder: held by one process at a time, and the result in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.errors import CheckpointError, ConfigError
from rmt.jsonfile import parse_json
from rmt.train.result import problem_of


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a run folder for one process; the lock goes with the process, however that ends."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigError(
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
    try:
        record: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        problem = problem_of(record)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise CheckpointError(f"{str(path)!r} is damaged ({problem}); delete it and run the command again")
    return record
