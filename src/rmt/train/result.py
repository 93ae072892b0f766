"""What a result has to hold, so that every command can show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NUMBER = (int, float)
FIELDS: dict[str, Any] = {
    "task": str,
    "model": str,
    "recipe": str,
    "metric": str,
    "value": NUMBER,
    "seed": int,
    "steps": int,
    "seconds": NUMBER,
    "samples": int,
    "config": dict,
    "metrics": dict,
}
TEXT_METRICS = ("loss", "perplexity", "tokens")
SEQUENCE_METRICS = (
    "accuracy",
    "sequence_accuracy",
    "teacher_forced_accuracy",
    "original_accuracy",
    "samples",
)
DOCUMENT_METRICS = ("accuracy", "f1")
MOST_BITS = 63  # of a count, as in int64


def problem_of(record: Any) -> str:
    """What is wrong with a result, or nothing."""
    if not isinstance(record, dict):
        return "it is no result"
    for name, kind in FIELDS.items():
        if not fits(record.get(name), kind):
            return f"{name} is missing or not of its kind"
    for where, group, names in numbers_of(record):
        for name in names:
            if not (isinstance(group, Mapping) and fits(group.get(name), NUMBER)):
                return f"{where}{name} is missing or not a number"
    return ""


def numbers_of(record: dict[str, Any]) -> list[tuple[str, Any, tuple[str, ...]]]:
    """The groups of a result and the numbers that each must have, by the kind of its task."""
    metrics = record["metrics"]
    if record["recipe"] == "finetune":
        groups = [(f"metrics.{split}.", metrics[split], DOCUMENT_METRICS) for split in metrics]
        return [*groups, ("", record, ("best_step",))]
    if "perplexity" in metrics:
        return [("metrics.", metrics, TEXT_METRICS), ("", record, ("tokens",))]
    return [("metrics.", metrics, SEQUENCE_METRICS)]


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; a truth is no number, and a whole number one that can be counted to."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    return not isinstance(value, int) or value.bit_length() <= MOST_BITS
