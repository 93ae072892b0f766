"""A configuration beside another: how much longer it takes, and how much more it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmt.bench.measure import Row


class RowRatios(NamedTuple):
    """A row over the row of another configuration that was measured the same way; ratios of a step."""

    configuration: str
    way: str
    beside: str
    time: float
    operations: float  # by the formula of `rmt.bench.flops`
    segments: float  # computed

    @property
    def time_per_operation(self) -> float:
        """1 = the more it computes, the longer it takes, no more than that."""
        return self.time / self.operations

    @property
    def time_per_segment(self) -> float:
        return self.time / self.segments


def comparisons(rows: Sequence[Row]) -> list[RowRatios]:
    """Every row with the rows that it names, where those were measured, too."""
    measured = {(row.configuration, row.way): row for row in rows}
    pairs = [(row, measured.get((name, row.way))) for row in rows for name in row.beside]
    return [comparison(row, other) for row, other in pairs if other is not None]


def comparison(row: Row, other: Row) -> RowRatios:
    return RowRatios(
        row.configuration,
        row.way,
        other.configuration,
        row.step.median / other.step.median,
        ratio(row.flops, other.flops),
        ratio(row.segments, other.segments),
    )


def ratio(value: float, other: float) -> float:
    """1 where nothing was counted: then the time alone is compared."""
    return value / other if value and other else 1.0
