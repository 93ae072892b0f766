"""Examples, targets, loss masks and splits of the paper's tasks, and corpora of text; no models."""

from importlib import import_module
from typing import Any

from rmt.tasks.registry import TASKS, make_task, task_names

_HOMES = {
    "Batch": "task",
    "CORPORA": "corpora",
    "Copy": "copy",
    "Corpus": "prepare",
    "Examples": "task",
    "Lanes": "lanes",
    "MemoryQA": "memory_qa",
    "Quadratic": "quadratic",
    "Retrieval": "retrieval",
    "Reverse": "reverse",
    "Segment": "segments",
    "Task": "task",
    "Vocabulary": "vocabulary",
    "check_corpus": "prepare",
    "find_source": "corpora",
    "next_token": "task",
    "open_corpus": "prepare",
    "prepare_corpus": "prepare",
    "segment": "segments",
    "segment_length": "segments",
}

__all__ = ["TASKS", "make_task", "task_names", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
