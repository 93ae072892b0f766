"""A run folder: made, resumed, finished, or refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from rmt.config import leaves, to_dict, write_yaml
from rmt.errors import CheckpointError, ConfigError
from rmt.train.checkpoint import read_config
from rmt.train.config import RunConfig
from rmt.train.log import write_whole
from rmt.train.loop import Loop, Observer


def train(
    config: RunConfig, folder: Path, observer: Observer, restart: bool = False
) -> tuple[dict[str, Any], bool]:
    """The result of a run in `folder`, and whether it was finished already.

    The folder is touched only when all settings have proved possible.
    """
    try:
        if not restart and (folder / "config.yaml").exists():
            refuse_other(config, folder)
            if result := read_result(folder):
                return result, True
        loop = Loop(config, folder, observer)
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
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "config.yaml", write_yaml(to_dict(config)))


def discard(folder: Path) -> None:
    """Delete a run; anything that is not a run is left alone."""
    if not folder.exists():
        return
    if not (folder / "config.yaml").exists():
        raise ConfigError(
            f"out={str(folder)!r} is not a run folder: --restart will not delete it; name another with --out"
        )
    shutil.rmtree(folder)


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


def run_folder(path: str | Path) -> Path:
    """The run folder of a run, or of one of its checkpoints."""
    path = Path(path)
    return path.parent.parent if (path / "trainer.json").exists() else path
