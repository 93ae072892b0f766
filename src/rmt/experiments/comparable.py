"""Which rows may be set against each other: those of runs that differ in their model alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rmt.config import value_in
from rmt.experiments.comparison import ComparedRow

SETTINGS = (
    *("task.options", "task.source", "task.shuffle", "task.tokens", "task.reset"),
    *("recipe", "size", "scale", "curriculum", "optimizer.name", "bptt.schedule"),
    *("train.test_samples", "train.evaluate_cache"),
    *("rate.schedule", "rate.minimum", "rate.factor", "rate.patience"),  # a recipe's warm-up is by model
)  # beside the sizes of the model
TUNING = ("rate_of", "rates", "trial_steps")  # of a cell: how its rate was chosen
OF_THE_MODEL = {"memory", "cache", "vocabulary"}  # what models differ in; the vocabulary follows from memory
COMPARED_SETTINGS = (
    *("data", "path", "task", "metric", "average", "positive", "folds"),
    *("lora", "epochs", "batch"),
)
BUDGET = ("train.steps", "train.batch", "train.accumulate")
LARGEST_RATIO = 1.3  # of sequences trained on: the paper's files have 900k steps beside 700k at one position


def usual(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    """Rows of full depth; of the recipe `paper` only where a position has no row of another recipe."""
    full = [row for row in rows if row.depth == "full"]
    others = {(row.task, row.segments) for row in full if row.recipe != "paper"}
    return [row for row in full if row.recipe != "paper" or (row.task, row.segments) not in others]


def pairs(rows: Iterable[ComparedRow], first: str, second: str) -> Iterator[tuple[ComparedRow, ComparedRow]]:
    """Rows of two models at one position, with as much memory or cache; a baseline goes with each."""
    members = usual(rows)
    for row in members:
        for other in members:
            sizes = other.model == "baseline" or row.size == other.size
            if (row.model, other.model) == (first, second) and sizes and alike(row, other):
                yield row, other


def alike(first: ComparedRow, second: ComparedRow) -> bool:
    """Whether two rows are of one task or text, cut alike, and trained and measured alike."""
    cut = (first.task, first.segments, first.length) == (second.task, second.segments, second.length)
    return cut and trained_alike(first, second)


def trained_alike(first: ComparedRow, second: ComparedRow) -> bool:
    return settings_of(first) == settings_of(second) and same_budget(first, second)


def settings_of(row: ComparedRow) -> list[Any]:
    """All that runs of different models have to share, but for task, cut and budget."""
    model = {name: value for name, value in row.record["config"]["model"].items() if name not in OF_THE_MODEL}
    return [model, row.metric, tuning(row), *(setting(row, name) for name in SETTINGS)]


def tuning(row: ComparedRow) -> list[Any]:
    """What its rate was chosen from, and how."""
    return [row.record["cell"][name] for name in TUNING]


def setting(row: ComparedRow, name: str) -> Any:
    return value_in(row.record["config"], name)


def same_budget(first: ComparedRow, second: ComparedRow) -> bool:
    """Of texts the same updates and batches; of sequences about as many."""
    budgets = [[setting(row, name) for name in BUDGET] for row in (first, second)]
    if not first.segments:
        return budgets[0] == budgets[1]
    fewer, more = sorted(steps * batch * accumulate for steps, batch, accumulate in budgets)
    return bool(more <= LARGEST_RATIO * fewer)


def tuned_alike(first: ComparedRow, second: ComparedRow) -> bool:
    """Whether two rows are of one pretrained model, on the same documents, and chose among the same rates."""
    settings = [
        [tuning(row), *(row.record["config"].get(name) for name in COMPARED_SETTINGS)]
        for row in (first, second)
    ]
    return first.model == second.model and settings[0] == settings[1]
