"""The most segments that a figure cuts each of its tasks into, by the plans of all scales, trained or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache

from rmt.experiments.cells import PlannedCell
from rmt.experiments.comparable import usual
from rmt.experiments.comparison import ComparedRow, Exhibits
from rmt.experiments.suites import SCALES

Cut = tuple[str, int]  # a task with its length, and segments


@cache
def planned_cells(exhibit: str) -> dict[Cut, dict[str, str]]:
    """The name of the first planned cell of each model at each cut of a figure."""
    cells: dict[Cut, dict[str, str]] = {}
    for suites in SCALES.values():
        for cell in suites[exhibit]("") if exhibit in suites else ():
            cells.setdefault(cut_of(cell), {}).setdefault(cell.settings["preset"], cell.name)
    return cells


def cut_of(cell: PlannedCell) -> Cut:
    task = cell.settings["task"]
    return "-".join(str(task[key]) for key in ("name", "length") if key in task), task["segments"]


def cuts(rows: Iterable[ComparedRow], exhibit: str, task: str) -> set[int]:
    """Into how many segments, beyond one, a task is cut: by the plans, and by the rows of it."""
    both = [*planned_cells(exhibit), *((row.task, row.segments) for row in rows)]
    return {segments for name, segments in both if name == task and segments > 1}


def most_segments(rows: Iterable[ComparedRow], exhibit: str, task: str) -> int:
    return max(cuts(rows, exhibit, task), default=1)


def lacking(
    exhibit: str,
    tasks: Collection[str],
    models: Collection[str],
    is_measured: Callable[[ComparedRow], bool] = lambda row: True,
) -> Callable[[Exhibits], Iterator[str]]:
    """Names of what is not measured with the most segments: cells of these models of tasks with rows."""

    def cells(exhibits: Exhibits) -> Iterator[str]:
        rows = [row for row in usual(exhibits.get(exhibit, ())) if row.segments > 1]
        measured = {(row.task, row.segments, row.model) for row in rows if is_measured(row)}
        for task in dict.fromkeys(row.task for row in rows if row.task.partition("-")[0] in tasks):
            most = most_segments(rows, exhibit, task)
            planned = planned_cells(exhibit).get((task, most), {})
            yield from (
                planned[model] for model in models if model in planned and (task, most, model) not in measured
            )

    return cells
