"""The name of a run folder that nobody named: what is special about the run; of a text, its file's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rmt.config import changed, to_dict, value_of
from rmt.errors import RMTError
from rmt.experiments.recipe import OLDER_RECIPES, resolve
from rmt.experiments.run import differences, settled, stored_precision
from rmt.experiments.settings import DERIVED, UNNAMED
from rmt.train.config import RunConfig
from rmt.train.names import suffix
from rmt.train.stored import load_config

BASE = ("preset", "recipe", "size", "scale")  # settings that others take their defaults from


def default_folder(config: RunConfig, ending: str, inside: str = "") -> Path:
    """runs/ and a name made of the settings; where an earlier release made this very run, the name it took.

    `inside` is where in that folder the run lies.
    """
    former = Path("runs") / f"{former_name(config)}{ending}"
    if holds(former / inside, config):
        return former
    return Path("runs") / f"{former_name(config)}{suffix(special(config), RunConfig)}{ending}"


def former_name(config: RunConfig) -> str:
    """The name of runs up to release 0.1: task, length or data, segments, model and recipe."""
    task, length = config.task, f"-{config.task.length}" if config.task.length else ""
    about = f"-{Path(task.data).name}" if task.data else f"{length}-{task.segments}"
    return f"{task.name.replace(':', '.')}{about}-{config.preset}-{config.recipe.partition('-')[0]}"


def holds(folder: Path, config: RunConfig) -> bool:
    """Whether a folder has a run of this very configuration."""
    try:
        expected = settled(config, stored_precision(folder, restart=False))
        return (folder / "config.yaml").is_file() and not [*differences(load_config(folder), expected)]
    except RMTError:  # whatever it holds, it is not this
        return False


def special(config: RunConfig) -> dict[str, Any]:
    """The settings that the former name neither tells nor decides."""
    task = to_dict(config.task)
    needed = ("name", "segments", "options", *(name for name in ("length", "data", "tokens") if task[name]))
    base = {name: getattr(config, name) for name in BASE}
    usual = resolve({"task": {name: task[name] for name in needed}, **base})
    decisive = {
        name: value for name, value in changed(config).items() if name in ("size", "scale", "task.tokens")
    }
    if config.recipe in OLDER_RECIPES:
        decisive["recipe"] = config.recipe
    names = (name for name, _, _ in differences(usual, config) if name not in {*UNNAMED, *DERIVED})
    return decisive | config.task.options | {name: value_of(config, name) for name in names}
