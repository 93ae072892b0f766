"""Every result of the paper: what it prints and what its authors' result files say, row by row.

The rows are in `published/`, numbered as in the paper: Fig. 3 is copy, reverse and retrieval, Fig. 4 long
copies, Fig. 5 depth and memory, Fig. 8 limited memory. Figures print no numbers; some printed numbers are in
no file. Retrieval's files name 2, 3, 4, 5 segments where 2, 2, 3, 5 were cut: `nominal` is what they name.
Accuracies are by the original's looser metric.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "published"
FILES = ("algorithmic.csv", "language.csv", "documents.csv")
OF_TEXT = ("figure-5", "table-2", "table-4", "table-5")  # figures and tables of language models
UNKNOWN = 0  # how many runs had a budget, where the files do not say


class PublishedCell(NamedTuple):
    """A cell of a figure or table. Memory counts tokens or cached positions, whichever the model has."""

    task: str  # with its source length, such as copy-24
    segments: int  # as they really were cut
    model: str
    memory: int


class Published(NamedTuple):
    """The runs behind a cell, by the authors' result files."""

    mean: float
    deviation: float  # 0 for a single run
    budgets: Mapping[int, int]  # updates of a run: how many runs of the mean had so many
    runs: int

    def __str__(self) -> str:
        spread = f" ± {self.deviation:.3f}" if self.runs > 1 else ""
        return f"{self.mean:.3f}{spread} ({self.runs} run{'s' * (self.runs > 1)}, {self.effort})"

    @property
    def effort(self) -> str:
        """The updates of the runs, and how many runs had them where they differ and that is known."""
        if UNKNOWN in self.budgets.values():
            return " or ".join(f"{steps // 1000}k" for steps in self.budgets) + " steps"
        if len(self.budgets) == 1:
            return f"{max(self.budgets) // 1000}k steps"
        return ", ".join(f"{runs} × {steps // 1000}k" for steps, runs in self.budgets.items()) + " steps"


class Number(NamedTuple):
    """A number as it is printed: with its digits, and with a deviation where there is one."""

    value: float
    deviation: float | None
    digits: int

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.{self.digits}f}"
        return f"{self.value:.{self.digits}f}{spread}"


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A row of a table or a point of a figure."""

    exhibits: tuple[str, ...]  # figure-3, table-1 …; none = in the files only
    task: str
    segments: int  # 0 = a text, which does not end
    nominal: int  # segments as the files name them
    segment_length: int
    model: str
    memory: int
    cache: int
    depth: str  # full, or previous segments
    measured: Published | None  # by the files
    values: tuple[float, ...]  # of the single runs, where they are known
    printed: Number | None  # in the paper
    steps: int  # the largest budget
    batch: int
    layers: int
    inner_width: int
    note: str

    @property
    def cell(self) -> PublishedCell:
        return PublishedCell(self.task, self.segments, self.model, self.memory or self.cache)


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """All rows, in the order of the files."""
    return tuple(row for name in FILES for row in rows_in(FOLDER / name))


def rows_in(file: Path) -> Iterator[PublishedRow]:
    with file.open(encoding="utf-8", newline="") as lines:
        yield from map(published_row, csv.DictReader(lines))


def published_row(line: Mapping[str, str]) -> PublishedRow:
    """A line of a file; what is not known is empty there."""
    steps, segments = budgets(line), int(line["segments"])
    return PublishedRow(
        exhibits=tuple(name for name in line["exhibits"].split() if name != "none"),
        task=line["task"],
        segments=segments,
        nominal=int(line["nominal"] or segments),
        segment_length=int(line["segment_length"]),
        model=line["model"],
        memory=int(line["memory"]),
        cache=int(line["cache"]),
        depth=line["depth"],
        measured=measured(line, steps),
        values=tuple(map(float, line["values"].split())),
        printed=printed(line),
        steps=max(steps),
        batch=int(line["batch"] or 0),
        layers=int(line["layers"] or 0),
        inner_width=int(line["inner_width"] or 0),
        note=line["note"],
    )


def budgets(line: Mapping[str, str]) -> dict[int, int]:
    """Updates and the runs that had them: `900k`, `700k:1 1000k:3`, or `300k:0 500k:0` where none knows."""
    parts = [word.partition(":") for word in line["steps"].split()]
    usual = line["runs"] or UNKNOWN
    return {
        int(steps.removesuffix("k")) * 1000: int(runs if colon else usual) for steps, colon, runs in parts
    }


def measured(line: Mapping[str, str], steps: Mapping[int, int]) -> Published | None:
    if not line["mean"]:
        return None
    return Published(float(line["mean"]), float(line["deviation"] or 0), steps, int(line["runs"] or UNKNOWN))


def printed(line: Mapping[str, str]) -> Number | None:
    text, spread = line["printed"], line["printed_deviation"]
    if not text:
        return None
    digits = max(len(number.partition(".")[2]) for number in (text, spread))
    return Number(float(text), float(spread) if spread else None, digits)


def exhibit_rows(name: str) -> list[PublishedRow]:
    """The rows of a figure or table."""
    return [row for row in published_rows() if name in row.exhibits]


def first_of_each() -> dict[PublishedCell, Published]:
    """The runs of every cell of the algorithmic tasks; of two settings of a cell, those of the first."""
    cells: dict[PublishedCell, Published] = {}
    for row in rows_in(FOLDER / "algorithmic.csv"):
        if row.measured and row.exhibits:
            cells.setdefault(row.cell, row.measured)
    return cells


def paper_budget(row: PublishedRow) -> dict[str, Any]:
    """The settings that a published row was trained with, beyond those of its recipe and size."""
    if not row.segments:
        return {"train": {"batch": row.batch, "steps": row.steps}}
    is_long = row.task.partition("-")[2] not in ("", "24")
    deep = row.layers > 4  # six layers: the patience and the lowest rate of the short tasks
    every = 40_000 if is_long else 12_000
    backwards = row.model == "memory_transformer" and row.task.startswith("reverse")
    patient = backwards or row.task in ("retrieval", "quadratic")
    patience = 10 if patient else 5 if is_long and not deep else 8
    evaluation = {"evaluate_every": every, "evaluate_samples": 320 if row.task == "quadratic" else 1600}
    return {
        "model": {"layers": row.layers, "inner_width": row.inner_width},
        "rate": {"patience": patience, "minimum": 0.1 if is_long and not deep else 0.01},
        "train": {"batch": row.batch, "steps": row.steps, "save_every": every, **evaluation},
    }


PUBLISHED = first_of_each()
