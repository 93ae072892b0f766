"""A run folder: held by one process at a time, prepared, refused or emptied, and the result in it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.errors import CheckpointError, ConfigError, shown
from rmt.partial import sweep
from rmt.seal import load_record
from rmt.store import write_whole
from rmt.train.stored import written

CHECKPOINTS = "checkpoints"  # the folder of a run that has them
REMEDY = "delete it and run the command again"
MAX_NUMBER = sys.float_info.max  # a perplexity can be near it; infinity and not a number are not below it
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
def prepared(folder: Path, config: Any, restart: Callable[[Path], None] | None = None) -> Iterator[None]:
    """Hold a run folder with a configuration in it.

    `restart` deletes what an earlier run wrote, where there is to be a new one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if restart is not None:
            restart(folder)
        elif has_lost_configuration(folder):
            raise ConfigError(
                f"out={str(folder)!r} holds a run whose config.yaml is lost, so nothing can go on there; "
                "copy config.yaml from another copy of the run, or start anew with --restart"
            )
        elif (folder / "result.json").exists():  # else it would have been taken as it is
            raise FolderInUse(
                f"out={str(folder)!r} has just been finished by another process; the same command shows it"
            )
        sweep(folder)
        write_whole(folder / "config.yaml", written(config))
        yield


def delete_written(
    folder: Path, names: Iterable[str], is_run: Callable[[Path], bool], kind: str = "run folder"
) -> None:
    """Delete what a run wrote, by its names; anything else, in this folder or any other, is left alone."""
    if not any(folder.iterdir()):
        return
    if not is_run(folder) and not has_lost_configuration(folder):
        raise ConfigError(
            f"out={str(folder)!r} is not a {kind}: --restart will not delete it; name another with --out"
        )
    from rmt.train.checkpoint import Checkpoints  # torch, which not all of this needs

    for path in (folder / name for name in names):
        if path.name == CHECKPOINTS:
            Checkpoints(path.parent).clear()
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def seed_folder(folder: Path, seed: int) -> Path:
    """Where one of many seeds lies."""
    return folder / f"seed-{seed}"


def has_lost_configuration(folder: Path) -> bool:
    """Whether a folder is what is left of a run without its config.yaml: checkpoints, or a result."""
    if (folder / "config.yaml").exists():
        return False
    if any((folder / CHECKPOINTS).glob("step_*/trainer.json")):
        return True
    try:
        return bool(load_result(folder))
    except CheckpointError:  # whatever it is, it is not of a run
        return False


def other_run(folder: Path, name: str, former: Any, current: Any, go_on: str = "") -> ConfigError:
    """The error where the run in a folder has another setting; `go_on` says with which it goes on."""
    return ConfigError(
        f"out={str(folder)!r} holds a run with {name}={former}, not {current}; "
        f"name another --out,{go_on} or start anew with --restart"
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
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
