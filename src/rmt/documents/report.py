"""Results of fine-tuning on documents as rows of a table: means over seeds, every measured split."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmt.documents.stored import renamed

HEADINGS = (
    "data",
    "backbone",
    "segments",
    "memory",
    "depth",
    "seeds",
    "F1, test",
    "F1, published",
    "accuracy, test",
)
INCIDENTAL = (
    "seed",
    "fold",
    "device",
    "at_once",
    "path",
    "checkpoint",
)  # what runs of one setting may differ in
Result = dict[str, Any]


def is_documents(result: Result) -> bool:
    return result.get("recipe") == "finetune"


def documents_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """A row per setting, in the order of the first result of each."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        config = {"cache": 0, "sink": None, **renamed(result["config"])}
        settings = {name: value for name, value in config.items() if name not in INCIDENTAL}
        groups[str(sorted(settings.items()))].append(result)
    return [row(members) for members in groups.values()]


def row(results: list[Result]) -> tuple[str, ...]:
    config = results[0]["config"]
    return (
        Path(config["data"]).name,
        Path(config["backbone"]).name,
        str(config["segments"]),
        f"{config['memory']}, cache {config['cache']}" if config.get("cache") else str(config["memory"]),
        str(config["depth"]),
        str(len(results)),
        spread(results, "test", "f1"),
        spread(results, "test_published", "f1"),
        spread(results, "test", "accuracy"),
    )


def spread(results: list[Result], split: str, metric: str) -> str:
    """Mean ± sample deviation over seeds; a dash where the split was not measured."""
    measured = [result["metrics"].get(split, {}) for result in results]
    values = [scores[metric] for scores in measured if metric in scores]
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.3f} (1 seed)"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"
