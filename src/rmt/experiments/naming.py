"""The name of a run folder that nobody named: what is special about the run, different for different runs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

from rmt.config import changed, leaves, to_dict, value_of
from rmt.errors import RMTError
from rmt.experiments.recipe import OLDER_RECIPES, resolve
from rmt.experiments.run import differences, settled, stored_precision
from rmt.train.config import RunConfig
from rmt.train.names import SHORT
from rmt.train.stored import load_config

# how far and where a run is trained, watched and stored: no sweep is over these
UNNAMED = {
    "seed",
    "device",
    "compile",
    "deterministic",
    "threads",
    "strategy",
    "train.target",
    "train.evaluate_every",
    "train.evaluate_samples",
    "train.evaluate_batch",
    "train.save_every",
    "train.keep",
    "train.log_every",
    "train.on_nan",
    "train.test_samples",
}
DERIVED = {"model.vocabulary", "model.memory.predicts"}  # they follow from other settings
BASE = ("preset", "recipe", "size", "scale")  # settings that others take their defaults from
MOST_CHARACTERS = 120  # of a name; file systems allow 255 bytes


def default_folder(config: RunConfig, ending: str, inside: str = "") -> Path:
    """runs/ and a name made of the settings; where an earlier release made this very run, the name it took.

    `inside` is where in that folder the run lies.
    """
    former = Path("runs") / f"{former_name(config)}{ending}"
    if holds(former / inside, config):
        return former
    return Path("runs") / f"{former_name(config)}{suffix(special(config))}{ending}"


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


def suffix(settings: dict[str, Any]) -> str:
    """Settings as the end of a name; what does not fit, or into a path, stands as a checksum."""
    last = Counter(leaf.name.rpartition(".")[2] for leaf in leaves(RunConfig))
    words = []
    for name, value in settings.items():
        short = SHORT.get(name) or (name if last[name.rpartition(".")[2]] > 1 else name.rpartition(".")[2])
        between = "" if isinstance(value, (int, float)) and not isinstance(value, bool) else "_"
        words.append(f"-{short}{between}{value}")
    text = "".join(words)
    safe = re.sub(r"[^\w.+-]+", "_", text)
    if safe == text and len(text) <= MOST_CHARACTERS:
        return text
    return f"{safe[:MOST_CHARACTERS]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
