"""Short names of settings: on the command line, in legends and tables, in the names of run folders."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rmt.config import leaves

MOST_CHARACTERS = 120  # of the end of a name; file systems allow 255 bytes

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


def suffix(settings: Mapping[str, Any], kind: type) -> str:
    """Settings of a kind of configuration as the end of a folder's name.

    What does not fit, or into a path, stands as a checksum.
    """
    last = Counter(leaf.name.rpartition(".")[2] for leaf in leaves(kind))
    words = []
    for name, value in settings.items():
        short = SHORT.get(name) or (name if last[name.rpartition(".")[2]] > 1 else name.rpartition(".")[2])
        between = "" if isinstance(value, (int, float)) and not isinstance(value, bool) else "_"
        words.append(f"-{short}{between}{value}")
    text = "".join(words).replace(":", ".")  # of classes, module:Class
    safe = re.sub(r"[^\w.+-]+", "_", text)
    if safe == text and len(text) <= MOST_CHARACTERS:
        return text
    return f"{safe[:MOST_CHARACTERS]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
