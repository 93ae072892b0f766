"""Language models at equal time: what each had reached when the quickest of a text was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rmt.experiments.comparison import ComparedRow
from rmt.experiments.figures import by_text, minutes
from rmt.experiments.labels import DASH, labels

TIMED = ("table-4",)  # figures and tables that are also compared at equal time
HEADINGS = ("model", "minutes", "updates then", "validation then", "at the end")
ABOUT = (
    "Validation of seed 0 when the quickest had trained, by the last evaluation of each. Minutes are of "
    "training alone, and comparable where nothing else ran on the device."
)


class TimedRow(NamedTuple):
    """A row when the quickest of its text was done."""

    label: str
    row: ComparedRow
    step: int | None  # none = not evaluated by then
    value: float | None

    @property
    def texts(self) -> tuple[str, ...]:
        run = self.row.runs[0]
        return (
            self.label,
            f"{run['seconds'] / 60:.1f}",
            DASH if self.step is None else f"{self.step:,}",
            DASH if self.value is None else f"{self.value:.4f}",
            f"{run['curve'][-1][1]:.4f}",
        )


class TimedText(NamedTuple):
    """The rows of a text after so many minutes."""

    text: str
    minutes: float
    rows: list[TimedRow]

    @property
    def title(self) -> str:
        return f"{self.text}, after {self.minutes:.1f} minutes"


def at_equal_time(exhibit: str, rows: Iterable[ComparedRow]) -> Iterator[TimedText]:
    """Every text of which several models were trained on one device."""
    for text, members in by_text(rows).items() if exhibit in TIMED else ():
        measured = [row for row in members if row.runs[0]["curve"]]
        if len(measured) > 1 and len({row.runs[0]["device"] for row in measured}) == 1:
            yield timed_text(text, measured)


def timed_text(text: str, rows: Sequence[ComparedRow]) -> TimedText:
    names = labels(rows)
    limit = min(row.runs[0]["seconds"] for row in rows) / 60
    return TimedText(text, limit, [timed_row(row, names[row.name], limit) for row in rows])


def timed_row(row: ComparedRow, label: str, limit: float) -> TimedRow:
    reached = [(step, value) for step, value in row.runs[0]["curve"] if minutes(row, step) <= limit]
    return TimedRow(label, row, *(reached[-1] if reached else (None, None)))
