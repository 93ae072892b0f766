"""A run folder: made, resumed, finished, or refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rmt.config import leaves, to_dict, write_yaml
from rmt.errors import CheckpointError, ConfigError, RMTError
from rmt.train.checkpoint import read_config
from rmt.train.config import RunConfig
from rmt.train.log import write_whole
from rmt.train.loop import Loop, Observer
from rmt.train.parallel import is_first


def train(
    config: RunConfig, folder: Path, observer: Observer, restart: bool = False
) -> tuple[dict[str, Any], bool]:
    """The result of a run in `folder`, and whether it was finished already.

    The folder is touched only when all settings have proved possible.
    """
    with ExitStack() as held:
        try:
            if not restart and (folder / "config.yaml").exists():
                refuse_other(config, folder)
                if result := read_result(folder):
                    return result, True
            loop = Loop(config, folder, observer)
            if is_first():
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(alone(folder))
                prepare(config, folder, restart)
        except OSError as error:
            raise ConfigError(
                f"out={str(folder)!r} cannot be written ({error.strerror}); name another with --out"
            ) from None
        return loop.run(), False


def prepare(config: RunConfig, folder: Path, restart: bool) -> None:
    """A folder that holds this configuration."""
    if restart:
        discard(folder)
    write_whole(folder / "config.yaml", write_yaml(to_dict(config)))


def discard(folder: Path) -> None:
    """Delete what a run wrote; anything else, in this folder or any other, is left alone."""
    if not any(folder.iterdir()):
        return
    try:
        read_config(folder)
    except RMTError:
        raise ConfigError(
            f"out={str(folder)!r} is not a run folder: --restart will not delete it; name another with --out"
        ) from None
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for name in ("result.json", "metrics.jsonl", "config.yaml"):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a run folder for one process; the lock goes with the process, however that ends."""
    import fcntl

    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(place)
        raise ConfigError(
            f"out={str(folder)!r} is being trained by another process; wait for it, or name another --out"
        ) from None
    try:
        yield
    finally:
        os.close(place)


def refuse_other(config: RunConfig, folder: Path) -> None:
    """Raise if the folder belongs to another configuration, naming the first difference."""
    there = read_config(folder)
    for leaf in leaves(RunConfig):
        old, new = value_of(there, leaf.name), value_of(config, leaf.name)
        if old != new:
            raise ConfigError(
                f"out={str(folder)!r} holds a run with {leaf.name}={old}, not {new}; "
                "name another --out, or start anew with --restart"
            )


def value_of(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config


def read_result(folder: Path) -> dict[str, Any]:
    """result.json of a run, or nothing while it is unfinished."""
    path = folder / "result.json"
    if not path.exists():
        return {}
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise CheckpointError(
            f"{str(path)!r} is damaged ({error}); delete it and run the command again"
        ) from None
    return record


def facts(config: RunConfig) -> list[str]:
    """A run in a few words for a reader: model, task, sizes, seed."""
    model = config.model
    sizes = {"memory": model.memory.size, "cache": model.cache.size}
    return [
        config.preset,
        f"{config.task.name}, {config.task.segments} segments",
        f"{model.layers} layers × {model.heads} heads",
        *(f"{name} {size}" for name, size in sizes.items() if size),
        f"seed {config.seed}",
    ]
