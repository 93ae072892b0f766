"""The settings of a run of a second, and a cell of such runs."""

from typing import Any

from rmt.experiments.cells import PlannedCell
from rmt.experiments.recipe import merge

ECHO = {
    "task": {"name": "tests.train.runs:Echo", "length": 3, "segments": 3},
    "model": {"layers": 1, "heads": 1, "head_width": 4, "width": 8, "inner_width": 8, "memory": {"size": 2}},
    "train": {"batch": 4, "steps": 4, "evaluate_every": 2, "evaluate_samples": 8, "log_every": 1},
    "device": "cpu",
    "threads": 1,
}


def echo(**settings: Any) -> dict[str, Any]:
    return merge(ECHO, settings)


def echo_cell(name: str, settings: dict[str, Any] | None = None, **fields: Any) -> PlannedCell:
    return PlannedCell(name=name, exhibits=("figure-3",), settings=echo(**(settings or {})), **fields)
