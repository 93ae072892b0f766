"""Learning curves as a picture, PNG or SVG (matplotlib)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmt.analysis.curves import Chart, Curve, CurveSheet
from rmt.analysis.figures import pyplot, save

# as on the page, in light colours
COLOURS = ("#0b62ad", "#c8500a", "#0a7a57", "#93328e", "#8a6a00", "#b3261e", "#2f7186", "#6a52c4")
DASHES = ("-", "--", ":", "-.")  # of the colours' second, third and fourth round
SOFT = "#67645e"
CHART_SIZE = (6.0, 4.0)  # inches
MOST_ACROSS = 3  # charts in a row: what a screen shows at a size that can be read
LETTER, SIGN, LINE = 0.075, 0.6, 0.18  # inches of the legend: a letter, a curve's sign with its gaps, a line


def draw_curves(sheet: CurveSheet, path: Path) -> None:
    """All charts in rows, in the format the path's ending names."""
    plot = pyplot()
    labels = list(dict.fromkeys(curve.label for chart in sheet.charts for curve in chart.curves))
    rows = math.ceil(len(sheet.charts) / MOST_ACROSS)
    across = math.ceil(len(sheet.charts) / rows)
    width = CHART_SIZE[0] * across
    columns = legend_columns(labels, width)
    size = (width, CHART_SIZE[1] * rows + LINE * (1 + math.ceil(len(labels) / columns)))
    figure, axes = plot.subplots(rows, across, figsize=size, layout="constrained", squeeze=False)
    for axis, chart in zip(axes.flat, sheet.charts, strict=False):
        draw_chart(axis, chart, labels)
    for axis in axes.flat[len(sheet.charts) :]:
        axis.remove()
    figure.suptitle(sheet.title, fontsize=12, parse_math=False)
    handles = [plot.Line2D([], [], **look(index)) for index in range(len(labels))]
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        title=sheet.note,
        title_fontsize=8,
        fontsize=9,
        frameon=False,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    save(figure, path)


def legend_columns(labels: Sequence[str], width: float) -> int:
    """As many columns of the longest label as fit a width in inches."""
    longest = SIGN + LETTER * max(map(len, labels))
    return min(len(labels), max(1, int(width / longest)))


def draw_chart(axis: Any, chart: Chart, labels: Sequence[str]) -> None:
    """One quantity over steps; a label has the same colour in all charts."""
    for curve in chart.curves:
        draw_curve(axis, curve, labels.index(curve.label))
    axis.set_xlabel("step", fontsize=9, color=SOFT)
    axis.set_title(chart.quantity.replace("_", " "), fontsize=10, loc="left")
    axis.tick_params(labelsize=8, colors=SOFT)
    axis.grid(axis="y", color="#e2dfd8", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def draw_curve(axis: Any, curve: Curve, index: int) -> None:
    """A line, and a band where runs differ; a curve of one point is a dot."""
    marker = "o" if len(curve.steps) == 1 else None
    axis.plot(curve.steps, curve.mean, marker=marker, **look(index))
    if max(curve.counts) > 1:
        axis.fill_between(curve.steps, curve.least, curve.most, color=look(index)["color"], alpha=0.18, lw=0)


def look(index: int) -> dict[str, Any]:
    """Colour and stroke of a curve by its number."""
    rounds = index // len(COLOURS)
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[rounds % len(DASHES)],
        "linewidth": 1.6,
    }
