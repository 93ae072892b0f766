"""Settings nested as in a config file: how they lie over one another, and which no sweep is over.

Listing runs needs this and no more: torch is not loaded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Settings = dict[str, Any]

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


def merge(*layers: Mapping[str, Any]) -> Settings:
    """Nested settings, later ones over earlier ones."""
    merged: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(key, {}), Mapping)
            merged[key] = merge(merged.get(key, {}), value) if both else value
    return merged


def dotted(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names; what is no mapping is its own value."""
    if not isinstance(settings, Mapping):
        return {prefix: settings}
    names: dict[str, Any] = {}
    for key, value in settings.items():
        names |= dotted(value, f"{prefix}.{key}" if prefix else str(key))
    return names
