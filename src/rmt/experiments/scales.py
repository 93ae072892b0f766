"""The axes of a chart: round ticks, places, and where a value stands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 380, 244
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 26, 40  # margins
TICKS = 5  # of an axis, about
NICE = (1, 2, 2.5, 5, 10)
LEAST_SPAN = 1e-12  # of an axis
DIGITS = 4  # of a number at an axis

Span = tuple[float, float]


class Axes(NamedTuple):
    """What the axes say; places of the horizontal one are evenly spaced where it has few values."""

    title: str
    across: str
    up: str
    even: bool = True
    span: Span | None = None  # of the vertical axis; none = what the points need


class Scale(NamedTuple):
    """From values to pixels."""

    places: tuple[float, ...]  # ticks of the horizontal axis
    even: bool
    across: Span
    up: Span

    def x(self, value: float) -> float:
        if self.even:
            return LEFT + (self.places.index(value) + 0.5) * self.slot
        return LEFT + (WIDTH - LEFT - RIGHT) * share(value, self.across)

    @property
    def slot(self) -> float:
        """The width of a place."""
        return (WIDTH - LEFT - RIGHT) / len(self.places)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(value, self.up)


def share(value: float, span: Span) -> float:
    return (value - span[0]) / ((span[1] - span[0]) or 1)


def scale_of(axes: Axes, across: Sequence[float], up: Sequence[float]) -> Scale:
    """The scale that values need; a horizontal axis that is not of places starts at zero."""
    vertical = rounded(*(axes.span or (min(up), max(up))))
    if axes.even:
        places = tuple(sorted(set(across)))
        return Scale(places, True, (places[0], places[-1]), vertical)
    span = (min(0.0, *across), max(across))
    return Scale(tuple(ticks(span)), False, span, vertical)


def rounded(low: float, high: float) -> Span:
    """The round numbers around a span."""
    step = tick_step(low, high)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return low, high if high > low else low + step


def tick_step(low: float, high: float) -> float:
    """A round distance of ticks."""
    span = max((high - low) or abs(high) or 1.0, LEAST_SPAN)
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    return next(factor * power for factor in NICE if factor * power * TICKS >= span * (1 - 1e-9))


def ticks(span: Span) -> Iterator[float]:
    """Round numbers in a span."""
    step = tick_step(*span)
    first = math.ceil(span[0] / step - 1e-9)
    for index in range(first, math.floor(span[1] / step + 1e-9) + 1):
        yield index * step


def grid(axes: Axes, scale: Scale) -> list[str]:
    """Axes with their numbers and names."""
    parts = []
    for value in ticks(scale.up):
        y = scale.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
    parts += (
        f'<text x="{scale.x(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
        f"{number(value)}</text>"
        for value in scale.places
    )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text class="name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(axes.across)}</text>'
    )
    parts.append(f'<text class="name" x="4" y="12">{escape(axes.up)}</text>')
    return parts


def number(value: float) -> str:
    """A number in few digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{DIGITS}g}"
