"""Learning curves as numbers: a line per setting, the mean of its seeds, and a band from least to most."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

Points = Sequence[tuple[float, float]]  # step and value
MOST_POINTS = 1000  # of a curve: as many as a wide screen has columns


class Curve(NamedTuple):
    """One setting's values over steps."""

    label: str
    steps: list[float]
    mean: list[float]
    least: list[float]
    most: list[float]
    counts: list[int]  # of the runs that have a value there: one that has stopped has none


class Chart(NamedTuple):
    """Curves of one quantity."""

    quantity: str  # such as "training loss"
    curves: list[Curve]


class PlottedRun(NamedTuple):
    """A run behind the curves, as a line of a table."""

    folder: Path
    label: str
    seed: str
    steps: int
    result: str  # its metric on the test split; nothing while it is unfinished
    explorer: Path | None  # the page of its attention


class CurveSheet(NamedTuple):
    """All that a picture of learning curves shows."""

    title: str
    note: str  # what line and band are
    charts: list[Chart]
    runs: list[PlottedRun]


def average(label: str, runs: Iterable[Points], width: float = 0.0) -> Curve:
    """The curve of some runs; values within `width` steps of each other are first averaged in their run."""
    parts: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for points in runs:
        for part, point in thinned(points, width).items():
            parts[part].append(point)
    values = {max(part)[0]: [value for _, value in part] for part in parts.values()}  # at its last step
    steps = sorted(values)
    return Curve(
        label,
        steps,
        [fmean(values[step]) for step in steps],
        [min(values[step]) for step in steps],
        [max(values[step]) for step in steps],
        [len(values[step]) for step in steps],
    )


def thinned(points: Points, width: float) -> dict[float, tuple[float, float]]:
    """The points of a run by their steps; with a width, by so wide parts, at its last step in each."""
    if not width:
        return {step: (step, value) for step, value in points}
    parts: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for step, value in points:
        parts[math.ceil(step / width)].append((step, value))
    return {number: (max(part)[0], fmean(value for _, value in part)) for number, part in parts.items()}


def chart(quantity: str, groups: Mapping[str, Sequence[Points]]) -> Chart:
    """The curves of settings, by label, none of more points than a screen can show."""
    runs = [points for group in groups.values() for points in group]
    longest = max(map(len, runs), default=0)
    last = max((step for points in runs for step, _ in points), default=0.0)
    width = last / MOST_POINTS if longest > MOST_POINTS else 0.0
    return Chart(quantity, [average(label, group, width) for label, group in groups.items()])
