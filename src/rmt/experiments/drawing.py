"""Line charts as SVG of our own: inline in a page, in its colours, light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 440, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 28, 40  # margins
TICKS = 5  # of the vertical axis, about
NICE = (1, 2, 2.5, 5, 10)
DIGITS = 4  # of a number at an axis


class Series(NamedTuple):
    """Points of one line; a dotted one is the paper's."""

    label: str
    css: str  # class of its colour
    points: tuple[tuple[float, float], ...]
    dotted: bool = False


class Axes(NamedTuple):
    """What the axes say; places of the horizontal one are evenly spaced where it has few values."""

    title: str
    across: str
    up: str
    even: bool = True


class Scale(NamedTuple):
    """From values to pixels."""

    places: tuple[float, ...]  # values at the horizontal axis
    even: bool
    low: float
    high: float

    def x(self, value: float) -> float:
        room = WIDTH - LEFT - RIGHT
        if self.even:
            share = (self.places.index(value) + 0.5) / len(self.places)
        else:
            first, last = self.places[0], self.places[-1]
            share = (value - first) / ((last - first) or 1)
        return LEFT + room * share

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def chart(axes: Axes, series: Sequence[Series]) -> str:
    """A figure of lines with a legend; nothing where there is no point."""
    drawn = [line for line in series if line.points]
    if not drawn:
        return ""
    scale = scale_of(axes, drawn)
    parts = [*grid(axes, scale), *(line_of(line, scale) for line in drawn)]
    legend = "".join(f'<span class="{css_of(line)}"><i></i>{escape(line.label)}</span>' for line in drawn)
    return (
        f'<figure><figcaption>{escape(axes.title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{escape(axes.title)}">{"".join(parts)}</svg>'
        f'<div class="legend">{legend}</div></figure>'
    )


def scale_of(axes: Axes, series: Sequence[Series]) -> Scale:
    across = tuple(sorted({x for line in series for x, _ in line.points}))
    up = [y for line in series for _, y in line.points]
    step = tick_step(min(up), max(up))
    low, high = math.floor(min(up) / step) * step, math.ceil(max(up) / step) * step
    return Scale(across, axes.even, low, high if high > low else low + step)


def tick_step(low: float, high: float) -> float:
    """A round distance of ticks."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    return next(factor * power for factor in NICE if factor * power * TICKS >= span)


def grid(axes: Axes, scale: Scale) -> list[str]:
    """Axes with their numbers and names."""
    step = tick_step(scale.low, scale.high)
    count = round((scale.high - scale.low) / step)
    parts = []
    for index in range(count + 1):
        value = scale.low + index * step
        y = scale.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
    places = scale.places if scale.even else (scale.places[0], scale.places[-1])
    for value in places:
        x = scale.x(value)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{number(value)}</text>'
        )
    middle, bottom = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6
    parts.append(
        f'<text class="name" x="{middle}" y="{bottom}" text-anchor="middle">{escape(axes.across)}</text>'
    )
    parts.append(f'<text class="name" x="12" y="12">{escape(axes.up)}</text>')
    return parts


def css_of(line: Series) -> str:
    return f"{line.css}{' dotted' * line.dotted}"


def line_of(line: Series, scale: Scale) -> str:
    points = [(scale.x(x), scale.y(y), x, y) for x, y in sorted(line.points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, *_ in points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(line.label)}: {number(at)}, '
        f"{number(value)}</title></circle>"
        for x, y, at, value in points
    )
    return f'<g class="{css_of(line)}"><polyline points="{path}"/>{dots if len(points) <= 12 else ""}</g>'


def number(value: float) -> str:
    """A number in few digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{DIGITS}g}"
