"""Examples, targets, loss masks and splits of the paper's tasks; no models."""

from importlib import import_module
from typing import Any

from rmt.tasks.registry import TASKS, make_task, task_names

_HOMES = {
    "Batch": "task",
    "Copy": "copy",
    "Examples": "task",
    "MemoryQA": "memory_qa",
    "Quadratic": "quadratic",
    "Recall": "recall",
    "Retrieval": "retrieval",
    "Reverse": "reverse",
    "Segment": "segments",
    "Task": "task",
    "next_token": "task",
    "segment": "segments",
    "segment_length": "segments",
}

__all__ = ["TASKS", "make_task", "task_names", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
