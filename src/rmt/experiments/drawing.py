"""Line charts as SVG of our own: inline in a page, in its colours, light and dark.

A hue is a model. Series of one model differ in shade and dash, all series of a chart in their marks, so that
a chart can be read without colours; the paper's are dotted and hollow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rmt.experiments.scales import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axes,
    Scale,
    grid,
    number,
    scale_of,
)

MARKS = (  # around a point
    "M-3.2,0a3.2,3.2 0 1,0 6.4,0a3.2,3.2 0 1,0 -6.4,0z",
    "M-2.9,-2.9h5.8v5.8h-5.8z",
    "M0,-3.9L3.9,2.9H-3.9z",
    "M0,-4.3L4.3,0L0,4.3L-4.3,0z",
    "M0,3.9L3.9,-2.9H-3.9z",
    "M-1.3,-3.9h2.6v2.6h2.6v2.6h-2.6v2.6h-2.6v-2.6h-2.6v-2.6h2.6z",
    "M3.9,0L-2.9,3.9V-3.9z",
    "M-4,-2.2L-2.2,-4L0,-1.8L2.2,-4L4,-2.2L1.8,0L4,2.2L2.2,4L0,1.8L-2.2,4L-4,2.2L-1.8,0z",
    "M-3.9,0L2.9,3.9V-3.9z",
    "M0,-4.4L1.3,-1.4L4.4,-1.3L2,0.7L2.8,3.8L0,2L-2.8,3.8L-2,0.7L-4.4,-1.3L-1.3,-1.4z",
)
SHADES = {1: ("",), 2: ("light", "dark"), 3: ("light", "", "dark")}  # by how many series a model has
DASHES = 4  # kinds of dashes in the page's style
MOST_MARKS = 12  # points of a series that all have a mark; of more, some have
APART = 7.0  # pixels between points at one place, which would hide each other
FULL = 0.7  # of the width of a place that its points may take
CAP = 3.0  # half the width of an error bar's end
EDGE = 7.0  # around the plot, where marks may stand


class ChartPoint(NamedTuple):
    """A mean, its deviation over runs, and how many these were; 0 = not known."""

    x: float
    y: float
    deviation: float = 0.0
    runs: int = 0


class Series(NamedTuple):
    """Points of one line; a dotted one is the paper's."""

    label: str
    css: str  # class of its hue
    points: tuple[ChartPoint, ...]
    dotted: bool = False
    mark: int = 0
    variant: int = 0  # among the series of its model
    variants: int = 1

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of runs behind its points."""
        return tuple(sorted({at.runs for at in self.points if at.runs}))

    @property
    def classes(self) -> str:
        shades = SHADES.get(self.variants, SHADES[3])
        names = (self.css, shades[self.variant % len(shades)], f"dash-{self.variant % DASHES}")
        return " ".join(filter(None, (*names, "dotted" if self.dotted else "")))


class Drawing(NamedTuple):
    """The series of a chart, and how far each stands beside a place where others stand too."""

    series: tuple[Series, ...]
    scale: Scale

    def at(self, line: Series, point: ChartPoint) -> tuple[float, float]:
        """Where a point of a line is drawn."""
        return self.scale.x(point.x) + self.shift(line, point.x), self.scale.y(point.y)

    def shift(self, line: Series, x: float) -> float:
        if not self.scale.even:
            return 0.0
        beside = [other for other in self.series if any(at.x == x for at in other.points)]
        apart = min(APART, FULL * self.scale.slot / max(1, len(beside) - 1))
        return (beside.index(line) - (len(beside) - 1) / 2) * apart


def chart(axes: Axes, series: Sequence[Series]) -> str:
    """A figure of lines with a legend; nothing where there is no point."""
    lines = tuple(line for line in series if line.points)
    if not lines:
        return ""
    drawing = Drawing(lines, scale_of(axes, [at.x for line in lines for at in line.points], ends(lines)))
    drawn = plot("".join(line_of(line, drawing) for line in lines))
    title = escape(axes.title)
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{title}">{"".join(grid(axes, drawing.scale))}{drawn}</svg>{legend(lines)}</figure>'
    )


def ends(series: Sequence[Series]) -> list[float]:
    """What the vertical axis has to show: means and the ends of their error bars."""
    points = [at for line in series for at in line.points]
    return [at.y + sign * at.deviation for at in points for sign in (-1, 1)]


def plot(lines: str) -> str:
    """The lines, cut off where they leave the axes."""
    x, y, right, bottom = LEFT - EDGE, TOP - EDGE, WIDTH - RIGHT + EDGE, HEIGHT - BOTTOM + EDGE
    width, height = right - x, bottom - y
    box = f'x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}"'
    return f'<svg class="plot" {box}>{lines}</svg>'


def line_of(line: Series, drawing: Drawing) -> str:
    points = sorted(line.points)
    path = " ".join("{:.1f},{:.1f}".format(*drawing.at(line, at)) for at in points)
    every = 1 if len(points) <= MOST_MARKS else math.ceil(len(points) / MOST_MARKS * 2)
    shown = points[::-every][::-1]
    bars = "".join(bar(line, at, drawing) for at in shown if at.deviation)
    dots = "".join(dot(line, at, drawing) for at in shown)
    return f'<g class="{line.classes}"><polyline points="{path}"/>{bars}{dots}</g>'


def bar(line: Series, at: ChartPoint, drawing: Drawing) -> str:
    """A mean ± its deviation, as far as the axis goes."""
    (x, _), (low, high) = drawing.at(line, at), drawing.scale.up
    top, bottom = (drawing.scale.y(min(high, max(low, at.y + sign * at.deviation))) for sign in (1, -1))
    caps = "".join(f"M{x - CAP:.1f},{y:.1f}h{2 * CAP}" for y in (top, bottom))
    return f'<path class="bar" d="M{x:.1f},{top:.1f}V{bottom:.1f}{caps}"/>'


def dot(line: Series, at: ChartPoint, drawing: Drawing) -> str:
    spread = f" ± {number(at.deviation)}" if at.deviation else ""
    runs = f" (n = {at.runs})" if at.runs else ""
    position = "translate({:.1f},{:.1f})".format(*drawing.at(line, at))
    return (
        f'<path class="mark" d="{mark(line)}" transform="{position}"><title>'
        f"{escape(line.label)}: {number(at.x)}, {number(at.y)}{spread}{runs}</title></path>"
    )


def mark(line: Series) -> str:
    return MARKS[line.mark % len(MARKS)]


def legend(series: Sequence[Series]) -> str:
    """A line for each mark, the paper's beside ours."""
    marks: dict[int, list[Series]] = {}
    for line in series:
        marks.setdefault(line.mark, []).append(line)
    pairs = ("".join(key(line, line is not pair[0]) for line in pair) for pair in marks.values())
    return f'<div class="legend">{"".join(f"<div>{pair}</div>" for pair in pairs)}</div>'


def key(line: Series, is_second: bool) -> str:
    """A line of the legend, drawn as in the chart, with the number of runs behind its points."""
    drawn = f'<polyline points="1,6 29,6"/><path class="mark" d="{mark(line)}" transform="translate(15,6)"/>'
    label = escape("paper" if is_second else line.label)
    ends = dict.fromkeys((*line.counts[:1], *line.counts[-1:]))
    counts = f", n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{'–'.join(map(str, ends))}" if ends else ""
    return (
        f'<span class="{line.classes}"><svg class="key" viewBox="0 0 30 12">{drawn}</svg>'
        f"{label}{counts}</span>"
    )
