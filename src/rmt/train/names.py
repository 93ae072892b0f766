"""Short names of settings: on the command line, in legends and tables, in the names of run folders."""

from __future__ import annotations

# short form: dotted name. A closed table: every other setting has its dotted name only.
ALIASES = {
    "model": "preset",
    "data": "task.data",
    "segments": "task.segments",
    "length": "task.length",
    "memory": "model.memory.size",
    "cache": "model.cache.size",
    "depth": "bptt.depth",
    "schedule": "bptt.schedule",
    "batch": "train.batch",
    "steps": "train.steps",
    "lr": "optimizer.lr",
    "matrix_lr": "optimizer.matrix_lr",
    "target": "train.target",
    "on_nan": "train.on_nan",
    "recipe": "recipe",
    "size": "size",
    "scale": "scale",
    "seed": "seed",
    "device": "device",
    "compile": "compile",
}
SHORT = {name: alias for alias, name in ALIASES.items()}


def short_name(name: str) -> str:
    """How a setting is called where there is little room: its short form, else its dotted name."""
    return SHORT.get(name, name)
