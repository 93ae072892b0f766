"""Recipes and sizes: where the settings come from that nobody named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rmt.config import from_dict, to_dict, typed
from rmt.core.config import ModelConfig
from rmt.core.presets import PRESETS, check_preset
from rmt.errors import ConfigError
from rmt.experiments.rules import rules_for
from rmt.experiments.settings import Settings, merge
from rmt.tasks.registry import declared_options, task_class
from rmt.tasks.task import Task
from rmt.train.check import check_run, require_samples
from rmt.train.config import RunConfig, TaskConfig, TrainConfig, build_task

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

# Where version 2 starts (docs/learning.md): the output layer at what is known before anything is learned, and
# layers so that memory goes through them as it is. Texts keep small weights: scaled ones cost 0.03 bits.
START: Settings = {"model": {"init": "identity", "output": "gained"}}
TEXT_START: Settings = {"model": {"output": "gained"}}
MODERN_2: Settings = {**MODERN, **START, "rate": {"schedule": "cosine"}}  # `rules_for` say how long it rises
RECIPES = {"modern-1": MODERN, "modern-2": MODERN_2, "paper": PAPER}
NEWEST = {"modern": "modern-2"}  # names that stand for a version; results store the version
OLDER_RECIPES = ("modern-1",)

# The same for text: sequences never end, so each loss reaches back a few segments.
TEXT_MODERN: Settings = {
    "optimizer": MODERN["optimizer"],
    "rate": MODERN["rate"],
    "bptt": {"schedule": "chunked"},
    "train": {"steps": 2000, "evaluate_every": 500, "save_every": 500},
}
TEXT_PAPER: Settings = {
    "model": {
        "norm": "post",
        "dropout": 0.1,
        "memory": {"init": "identical"},
        "cache": {"scope": "all"},
    },
    "bptt": {"schedule": "sliding", "replay_from": "latest"},
    "optimizer": {"name": "adam", "lr": 2.5e-4, "beta2": 0.999, "clip": 0.25},
    "rate": {"schedule": "cosine"},
    "train": {"steps": 200_000, "evaluate_every": 4000, "evaluate_batch": 10, "save_every": 4000},
}
TEXT_RECIPES = {"modern-1": TEXT_MODERN, "modern-2": {**TEXT_MODERN, **TEXT_START}, "paper": TEXT_PAPER}
TEXT_SIZES: dict[str, Settings] = {
    "small": {"task": {"segment_length": 64}, "train": {"batch": 16}},
    "enwik8-base": {
        "task": {"segment_length": 128},
        "model": {"layers": 12, "heads": 8, "head_width": 64, "width": 512, "inner_width": 2048},
        "train": {"batch": 64, "steps": 400_000},
    },
    "wt103-base": {
        "task": {"segment_length": 150},
        "model": {
            "cutoffs": [20_000, 40_000, 200_000],
            "layers": 16,
            "heads": 10,
            "head_width": 41,
            "width": 410,
            "inner_width": 2100,
        },
        "train": {"batch": 60},
    },
}
SCALES: dict[str, Settings] = {
    "full": {},
    "gpu": {
        "model": {"layers": 6, "heads": 8, "head_width": 32, "width": 256, "inner_width": 1024},
        "train": {"batch": 32, "steps": 2000, "evaluate_every": 500, "save_every": 500},
    },
    "cpu": {
        "model": {"layers": 2, "heads": 4, "head_width": 32, "width": 64, "inner_width": 128},
        "train": {"batch": 16, "steps": 500, "evaluate_every": 250, "save_every": 250},
    },
}
TEXT_MEMORY = 10  # memory tokens
TEXT_DEPTH = 2  # previous segments that a loss reaches, where memory carries gradients

SMALL: Settings = {"layers": 2, "heads": 4, "head_width": 32, "width": 64, "inner_width": 128}
PAPER_SIZES: dict[str, Settings] = {
    "copy": {"layers": 4, "heads": 4, "head_width": 64, "width": 128, "inner_width": 256},
    "reverse": {"layers": 4, "heads": 4, "head_width": 64, "width": 128, "inner_width": 256},
    "recall": {"layers": 4, "heads": 4, "head_width": 64, "width": 128, "inner_width": 256},
    "retrieval": {"layers": 6, "heads": 4, "head_width": 32, "width": 64, "inner_width": 128},
    "quadratic": {"layers": 6, "heads": 6, "head_width": 64, "width": 128, "inner_width": 256},
}
# what a setting needs to have an effect
NEEDS = {
    ("memory", "kind"): ("memory",),
    ("memory", "init"): ("memory",),
    ("memory", "write"): ("memory",),
    ("memory", "recurrent"): ("memory",),
    ("memory", "sees_cache"): ("memory", "cache"),
    ("cache", "scope"): ("memory", "cache"),
    ("cache", "sink"): ("cache",),
}
PAPER_BATCH = {"modern-1": 128, "paper": 32}  # modern-2 has a rule
PAPER_BUDGETS: dict[str, Settings] = {
    "retrieval": {"rate": {"patience": 10}, "train": {"steps": 1_000_000}},
    "quadratic": {"rate": {"patience": 10}, "train": {"steps": 600_000}},
}
SYMBOL_TASKS = ("copy", "reverse", "recall")
SHORT = 8  # their source length of the small size: minutes on a CPU


class Defaults(NamedTuple):
    """What nobody named, for tasks of one layout."""

    recipes: Mapping[str, Settings]
    settings: Callable[[Mapping[str, Any]], Settings]  # of recipe, size and scale
    memory: int | None  # memory tokens; none = as many as a segment has tokens


def resolve(named: Mapping[str, Any]) -> RunConfig:
    """The whole configuration from the settings a user named: nested, as in a config file."""
    named = typed(RunConfig, named)
    name = named.setdefault("preset", "rmt")
    recipe_name = named.get("recipe", "modern")
    named["recipe"] = NEWEST.get(recipe_name, recipe_name)
    task_settings = named.get("task", {})
    kind = task_class(task_settings.get("name", TaskConfig().name))
    if "options" in task_settings:
        task_settings["options"] = declared_options(kind, task_settings["options"])
    defaults = DEFAULTS[kind.layout]
    unnamed = defaults.settings(named)
    settings = merge(unnamed, named)
    task_config = from_dict(TaskConfig, settings.get("task", {}))
    task = build_task(task_config)
    length = task.tokens_per_segment(task_config.segments)
    if settings["recipe"] == "modern-2" and kind.layout == "sequences":
        layers, steps = settings["model"]["layers"], settings["train"]["steps"]
        rules = rules_for(task, settings["size"], layers, task_config.segments, steps)
        over = named.get("curriculum", {}).get("over", "length")
        if over != "length" or task_config.source == "fixed":
            del rules["curriculum"]
        unnamed = merge(rules, unnamed)
        settings = merge(unnamed, named)
    parts = preset_settings(name, defaults.memory or length, length, settings)
    recipe = defaults.recipes[settings["recipe"]]
    otherwise = merge(to_dict(ModelConfig()), parts, recipe.get("model", {}))
    refuse_needless(name, named.get("model", {}), otherwise)
    model = merge(parts, settings.get("model", {}))
    predicts = settings.get("train", {}).get("memory_loss", 0.0) > 0
    set_vocabulary(model, named.get("model", {}), task, predicts)
    config = from_dict(RunConfig, {**settings, "model": model})
    check_run(config, kind)
    refuse_too_many_samples(config.train.evaluate_samples, unnamed, kind)
    return config


def sequence_settings(named: Mapping[str, Any]) -> Settings:
    """What recipe and size say about a task of sequences."""
    recipe, size = named["recipe"], named.get("size", "small")
    budget = PAPER_BUDGETS.get(named.get("task", {}).get("name", ""), {}) if recipe == "paper" else {}
    return merge(RECIPES[recipe], budget, sizes_of(named, recipe, size), {"recipe": recipe, "size": size})


def lane_settings(named: Mapping[str, Any]) -> Settings:
    """What recipe, size and scale say about text."""
    recipe, size = named["recipe"], named.get("size", "small")
    scale = named.get("scale", "full")
    if size not in TEXT_SIZES:
        raise ConfigError(f"size={size} is not known for text; choose from: {', '.join(TEXT_SIZES)}")
    if size == "small" and scale != "full":
        raise ConfigError(f"scale={scale} has no effect with size=small; use enwik8-base or wt103-base")
    small = size == "small" or scale == "cpu"
    recurrent = named["preset"] in ("rmt", "transformer_xl_rmt")
    return merge(
        {"model": SMALL} if size == "small" else {},
        {"threads": 1} if small else {},
        TEXT_RECIPES[recipe],
        {"bptt": {"depth": TEXT_DEPTH if recurrent else 0}},
        TEXT_SIZES[size],
        SCALES[scale],
        {"recipe": recipe, "size": size},
    )


DEFAULTS = {
    "sequences": Defaults(RECIPES, sequence_settings, memory=None),
    "lanes": Defaults(TEXT_RECIPES, lane_settings, TEXT_MEMORY),
}


def set_vocabulary(model: Settings, named: Settings, task: Task, predicts: bool) -> None:
    """As many tokens as the task has, one more for memory to predict, and no cutoffs beyond them."""
    needed = task.vocabulary + predicts
    if predicts and not (model["memory"]["size"] and model["memory"]["write"]):
        raise ConfigError("train.memory_loss has no effect: this model writes no memory; leave it out")
    if predicts:
        model["memory"] = merge(model["memory"], {"predicts": True})
    if model.setdefault("vocabulary", needed) < needed:
        raise ConfigError(
            f"model.vocabulary={model['vocabulary']} is too small: {task.name} has {needed} tokens; "
            "leave it out"
        )
    if "cutoffs" not in named:
        model["cutoffs"] = [cutoff for cutoff in model.get("cutoffs", ()) if cutoff < task.vocabulary]


def sizes_of(named: Mapping[str, Any], recipe: str, size: str) -> Settings:
    """Model size, batch and default source length that go with a size and a task."""
    task = named.get("task", {}).get("name", "copy")
    if size == "small":
        short = {"task": {"length": SHORT}} if task in SYMBOL_TASKS else {}
        return {"model": SMALL, "threads": 1, **short}
    if size != "paper":
        raise ConfigError(f"size={size} is for text, not for task {task!r}; use small or paper")
    if task not in PAPER_SIZES:
        raise ConfigError(
            f"size=paper is not known for task {task!r}; use size=small and set model.layers and so on"
        )
    batch = {"train": {"batch": PAPER_BATCH[recipe]}} if recipe in PAPER_BATCH else {}
    return {"model": PAPER_SIZES[task], **batch}


def preset_settings(name: str, memory: int, length: int, settings: Settings) -> Settings:
    """Memory and cache of one of the paper's models; the cache holds a whole segment.

    Where it keeps memory states beside tokens, these are a segment's tokens and what the segment wrote.
    """
    has_memory, has_cache = PRESETS[name]
    carries = name != "memory_transformer"
    chosen = merge({"memory": {"size": memory * has_memory}, "cache": {}}, settings.get("model", {}))
    kept = chosen["memory"]["size"] if chosen["cache"].get("scope") == "all" else 0
    parts: Settings = {
        "memory": {"size": memory * has_memory, "write": carries, "recurrent": carries},
        "cache": {"size": (length + kept) * has_cache},
    }
    whole = merge(parts, settings.get("model", {}))
    check_preset(name, whole["memory"]["size"], whole["cache"]["size"])
    if has_memory and whole["memory"]["write"] != carries:
        other = "memory_transformer" if carries else "rmt"
        raise ConfigError(
            f"model.memory.write={not carries} makes another model of {name}; use model={other}"
        )
    return parts


def refuse_needless(name: str, named: Settings, otherwise: Settings) -> None:
    """Raise for a setting of memory or cache that is not as usual and yet changes nothing."""
    present = dict(zip(("memory", "cache"), PRESETS[name], strict=True))
    for (group, key), parts in NEEDS.items():
        usual = otherwise[group][key]
        value = named.get(group, {}).get(key, usual)
        missing = [part for part in parts if not present[part]]
        if missing and value != usual:
            setting = f"model.{group}.{key}={value}"
            raise ConfigError(f"{setting} has no effect: the {name} model has no {missing[0]}; leave it out")


def refuse_too_many_samples(samples: int, unnamed: Settings, kind: type[Task]) -> None:
    """Raise for a larger validation set than there is; the usual one may be, and then it is all there is."""
    usual = unnamed.get("train", {}).get("evaluate_samples", TrainConfig().evaluate_samples)
    if samples != usual:
        require_samples("evaluate_samples", samples, kind, "valid")
