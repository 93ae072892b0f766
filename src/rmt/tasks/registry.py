"""Tasks by name: the paper's own, those of installed packages, and a user's class as `module:Class`.

Naming a task loads it; importing this file does not load torch.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.metadata
import inspect
import os
import sys
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmt.config import SCALAR, choices, parse
from rmt.errors import ConfigError, shown, unknown
from rmt.location import class_at

if TYPE_CHECKING:
    from rmt.tasks.task import Task

TASKS = {
    "copy": "rmt.tasks.copy:Copy",
    "reverse": "rmt.tasks.reverse:Reverse",
    "recall": "rmt.tasks.recall:Recall",
    "retrieval": "rmt.tasks.retrieval:Retrieval",
    "quadratic": "rmt.tasks.quadratic:Quadratic",
    "memory-qa": "rmt.tasks.memory_qa:MemoryQA",
    "text": "rmt.text.task:Text",
}
ENTRY_POINTS = "rmt.tasks"
METRICS = ("accuracy", "sequence_accuracy")


def make_task(name: str, **options: Any) -> Task:
    """The task called `name` with its options, such as `make_task("copy", length=8)`."""
    cls = task_class(name)
    check_options(name, cls, options)
    return cls(**options)


def task_names() -> list[str]:
    """All names that `make_task` knows: built in, then from installed packages."""
    return [*TASKS, *sorted(installed().keys() - TASKS.keys())]


def task_class(name: str) -> type[Task]:
    """The class behind a task's name."""
    known = installed() | TASKS
    if name in known:
        return load(name, known[name])
    if ":" in name:
        return load(name, name)
    if os.path.exists(name):
        raise ConfigError(f"task={shown(name)} is a file or folder; its text is for: text --data PATH")
    raise unknown("task", name, [*known, "module:Class"])


def installed() -> dict[str, str]:
    """The tasks of other packages: name -> "module:Class"."""
    return installed_on(tuple(sys.path))


@functools.cache
def installed_on(path: tuple[str, ...]) -> dict[str, str]:
    """The tasks of the packages on a path, which is `sys.path`: looking into all of them takes a while."""
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return {point.name: f"{point.module}:{point.attr}" for point in points}


def load(name: str, location: str) -> type[Task]:
    """Import the class at `location`, which is "module:Class"."""
    from rmt.tasks.task import Task

    cls: type[Task] = class_at(location, Task, "rmt.tasks", f"task {name!r}")
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        raise ConfigError(f"task {name!r}: class {cls.__name__!r} is unfinished; define: {missing}")
    check_class(name, cls)
    return cls


def check_class(name: str, cls: type[Task]) -> None:
    """Raise for a task class that a run would only stumble over later."""
    if isinstance(cls.metric, str) and cls.metric not in METRICS:  # a property is asked when the task is made
        raise ConfigError(
            f"task {name!r}: metric={cls.metric!r} is not known; choose from: {', '.join(METRICS)}"
        )
    for split in ("train", "valid", "test"):
        if cls.sizes.get(split, 0) < 1:
            raise ConfigError(f"task {name!r}: sizes has no examples for split {split!r}; give it at least 1")


def declared_options(cls: type[Task], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options, those that a command line gave as text by their declaration: text, or what it looks like."""
    types_of = typing.get_type_hints(cls)
    kinds = {key: types_of[key] for key in options if str in choices(types_of.get(key))}
    return {
        key: parse(value, kinds.get(key, SCALAR), key) if isinstance(value, str) else value
        for key, value in options.items()
    }


def check_options(name: str, cls: type[Task], options: dict[str, Any]) -> None:
    """Raise for an option the task does not have or cannot do without, and for a value of the wrong type."""
    types_of = typing.get_type_hints(cls)
    known = sorted(field.name for field in dataclasses.fields(cls))
    for field in dataclasses.fields(cls):
        default = (field.default, field.default_factory)
        if field.name not in options and default == (dataclasses.MISSING, dataclasses.MISSING):
            flag = "--data FOLDER" if field.name == "data" else f"--task.options {field.name}=VALUE"
            raise ConfigError(f"task {name!r} needs option {field.name!r}, which has no default: name {flag}")
    for key, value in options.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"task {name!r} has no option {key!r}; {hint}options: {', '.join(known)}")
        if not matches(value, types_of[key]):
            expected = getattr(types_of[key], "__name__", types_of[key])
            raise ConfigError(f"{key}={value!r} of task {name!r} is not of type {expected}")


def matches(value: Any, hint: Any) -> bool:
    """Whether a value fits a plain annotation such as `int` or `int | None`; others are not judged."""
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, (int, float))
    return isinstance(value, hint) if isinstance(hint, (type, types.UnionType)) else True
