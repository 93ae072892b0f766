"""Recipes and sizes: where the settings come from that nobody named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmt.config import from_dict, to_dict, typed
from rmt.core.config import ModelConfig
from rmt.core.presets import PRESETS, check_preset
from rmt.errors import ConfigError
from rmt.tasks.segments import segment_length
from rmt.train.config import RunConfig, TaskConfig, build_task

Settings = dict[str, Any]

# How an RMT learns in hundreds of steps: pre-norm, Muon, no dropout, fresh examples.
MODERN: Settings = {
    "optimizer": {"name": "muon", "lr": 1e-3, "matrix_lr": 0.01, "clip": 1.0},
    "rate": {"schedule": "cosine", "warmup": 100},
    "train": {"steps": 2000, "evaluate_every": 100},
}

# What the published runs did: post-norm, Adam at 1e-4 halved on plateaus, dropout 0.1, a fixed set in order.
PAPER: Settings = {
    "task": {"source": "fixed"},
    "model": {
        "norm": "post",
        "dropout": 0.1,
        "memory": {"init": "identical", "sees_cache": True},
        "cache": {"scope": "all"},
    },
    "optimizer": {"name": "adam", "lr": 1e-4, "beta2": 0.999, "clip": 0.25},
    "rate": {"schedule": "plateau", "minimum": 0.01},
    "train": {"steps": 400_000, "evaluate_every": 12_000, "evaluate_samples": 1600, "save_every": 12_000},
}

RECIPES = {"modern": MODERN, "paper": PAPER}

SMALL: Settings = {"layers": 2, "heads": 4, "head_width": 32, "width": 64, "inner_width": 128}
PAPER_SIZES: dict[str, Settings] = {
    "copy": {"layers": 4, "heads": 4, "head_width": 64, "width": 128, "inner_width": 256},
    "reverse": {"layers": 4, "heads": 4, "head_width": 64, "width": 128, "inner_width": 256},
    "retrieval": {"layers": 6, "heads": 4, "head_width": 32, "width": 64, "inner_width": 128},
    "quadratic": {"layers": 6, "heads": 6, "head_width": 64, "width": 128, "inner_width": 256},
}
# what a setting needs to have an effect
NEEDS = {
    ("memory", "init"): ("memory",),
    ("memory", "write"): ("memory",),
    ("memory", "recurrent"): ("memory",),
    ("memory", "sees_cache"): ("memory", "cache"),
    ("cache", "scope"): ("memory", "cache"),
}
PAPER_BATCH = {"modern": 128, "paper": 32}
PAPER_BUDGETS: dict[str, Settings] = {
    "retrieval": {"rate": {"patience": 10}, "train": {"steps": 1_000_000}},
    "quadratic": {"rate": {"patience": 10}, "train": {"steps": 600_000}},
}
SHORT = 8  # source length of the small size: minutes on a CPU


def resolve(given: Mapping[str, Any]) -> RunConfig:
    """The whole configuration from the settings a user named: nested, as in a config file."""
    given = typed(RunConfig, given)
    recipe, size = given.get("recipe", "modern"), given.get("size", "small")
    name = given.get("preset", "rmt")
    budget = PAPER_BUDGETS.get(given.get("task", {}).get("name", ""), {}) if recipe == "paper" else {}
    settings = merge(RECIPES[recipe], budget, sizes_of(given, recipe, size), given)
    task_config = from_dict(TaskConfig, settings.get("task", {}))
    task = build_task(task_config)
    parts = preset_settings(name, segment_length(task.total_length, task_config.segments), settings)
    otherwise = merge(to_dict(ModelConfig()), parts, RECIPES[recipe].get("model", {}))
    refuse_needless(name, given.get("model", {}), otherwise)
    model = merge(parts, settings.get("model", {}))
    if model.setdefault("vocabulary", task.vocabulary) < task.vocabulary:
        raise ConfigError(
            f"model.vocabulary={model['vocabulary']} is too small: {task.name} has {task.vocabulary} tokens"
        )
    return from_dict(RunConfig, {**settings, "recipe": recipe, "size": size, "preset": name, "model": model})


def sizes_of(given: Mapping[str, Any], recipe: str, size: str) -> Settings:
    """Model size, batch and default source length that go with a size and a task."""
    task = given.get("task", {}).get("name", "copy")
    if size == "small":
        short = {"task": {"length": SHORT}} if task in ("copy", "reverse") else {}
        return {"model": SMALL, "threads": 1, **short}
    if task not in PAPER_SIZES:
        raise ConfigError(
            f"size=paper is not known for task {task!r}; use size=small and set model.layers and so on"
        )
    return {"model": PAPER_SIZES[task], "train": {"batch": PAPER_BATCH[recipe]}}


def preset_settings(name: str, length: int, settings: Settings) -> Settings:
    """Memory and cache of one of the paper's models; both default to the length of a segment."""
    has_memory, has_cache = PRESETS[name]
    carries = name != "memory_transformer"
    own: Settings = {
        "memory": {"size": length * has_memory, "write": carries, "recurrent": carries},
        "cache": {"size": length * has_cache},
    }
    whole = merge(own, settings.get("model", {}))
    check_preset(name, whole["memory"]["size"], whole["cache"]["size"])
    if has_memory and whole["memory"]["write"] != carries:
        other = "memory_transformer" if carries else "rmt"
        raise ConfigError(
            f"model.memory.write={not carries} makes another model of {name}; use model={other}"
        )
    return own


def refuse_needless(name: str, given: Settings, otherwise: Settings) -> None:
    """Raise for a setting of memory or cache that is not as usual and yet changes nothing."""
    present = dict(zip(("memory", "cache"), PRESETS[name], strict=True))
    for (group, key), parts in NEEDS.items():
        usual = otherwise[group][key]
        value = given.get(group, {}).get(key, usual)
        missing = [part for part in parts if not present[part]]
        if missing and value != usual:
            setting = f"model.{group}.{key}={value}"
            raise ConfigError(f"{setting} has no effect: the {name} model has no {missing[0]}; leave it out")


def merge(*layers: Mapping[str, Any]) -> Settings:
    """Nested settings, later ones over earlier ones."""
    merged: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(key, {}), Mapping)
            merged[key] = merge(merged.get(key, {}), value) if both else value
    return merged
