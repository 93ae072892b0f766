"""The lines of a chart from the rows of a report: ours, and the paper's dotted beside them."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rmt.experiments.comparison import MODELS, ComparedRow, rank, reference_of
from rmt.experiments.drawing import ChartPoint, Series
from rmt.experiments.labels import Row, hues, labels, model_name
from rmt.experiments.paper import PublishedRow, exhibit_rows
from rmt.experiments.scales import Span
from rmt.tasks.registry import METRICS

TOP_OF_CURVES = 1.5  # of bits or perplexity: how far above the worst final value curves are drawn
Key = tuple[str, str]  # model, label


class Reading(NamedTuple):
    """How rows become points: where they stand, and which line they belong to."""

    across: Callable[[Row], float]
    name: Callable[[ComparedRow], str] = model_name
    published_name: Callable[[PublishedRow], str] = model_name


def lines(rows: Iterable[ComparedRow], published: Iterable[PublishedRow], reading: Reading) -> list[Series]:
    """A line per name, and the paper's of this name in the same hue, with the same mark."""
    ours: dict[Key, list[ChartPoint]] = defaultdict(list)
    papers: dict[Key, list[ChartPoint]] = defaultdict(list)
    for row in rows:
        point = ChartPoint(reading.across(row), row.mean, row.deviation, len(row.values))
        ours[row.model, reading.name(row)].append(point)
    for line in published:
        if (value := reference_of(line)) is not None:
            point = published_point(line, reading.across(line), value)
            papers[line.model, reading.published_name(line)].append(point)
    return styled({**ours}, {**papers})


def published_point(row: PublishedRow, x: float, value: float) -> ChartPoint:
    if row.measured:
        return ChartPoint(x, value, row.measured.deviation, row.measured.runs)
    return ChartPoint(x, value, (row.printed.deviation if row.printed else None) or 0.0)


def styled(ours: dict[Key, list[ChartPoint]], papers: dict[Key, list[ChartPoint]]) -> list[Series]:
    """Lines in the order of models; each with a mark, and its place among the lines of its model."""
    keys = sorted({*ours, *papers}, key=natural)
    counts = Counter(model for model, _ in keys)
    colours = hues(model for model, _ in (*ours, *papers))
    series, of_model = [], Counter[str]()
    for (model, label), mark in zip(keys, marks(model for model, _ in keys), strict=True):
        for points, name, dotted in (
            (ours.get((model, label)), label, False),
            (papers.get((model, label)), f"{label}, paper", True),
        ):
            if points:
                style = (dotted, mark, of_model[model], counts[model])
                series.append(Series(name, colours[model], tuple(points), *style))
        of_model[model] += 1
    return series


def marks(models: Iterable[str]) -> Iterator[int]:
    """A mark for each line: the first of a model has the model's own in every chart."""
    others = itertools.count(len(MODELS))
    seen: set[str] = set()
    for model in models:
        yield MODELS.index(model) if model in MODELS and model not in seen else next(others)
        seen.add(model)


def natural(key: Key) -> tuple[int, list[tuple[int, str]]]:
    """Models as in the paper, numbers in labels as numbers."""
    model, label = key
    words = re.split(r"(\d+)", label)
    return rank(model, MODELS), [(int(word), "") if word.isdigit() else (-1, word) for word in words]


def papers_own(rows: Iterable[ComparedRow]) -> list[PublishedRow]:
    """The paper's rows that ours stand beside."""
    return [row.published for row in rows if row.published]


def papers_text(rows: Sequence[ComparedRow]) -> list[PublishedRow]:
    """All rows of the paper on the texts and segments that rows of ours stand beside."""
    texts = {(row.task, row.segment_length) for row in papers_own(rows)}
    return [
        row
        for row in exhibit_rows(rows[0].exhibit)
        if (row.task, row.segment_length) in texts and "paper of" not in row.note
    ]


def curve_series(rows: Sequence[ComparedRow], across: Callable[[ComparedRow, int], float]) -> list[Series]:
    """Validation of seed 0 of each row, named by what it differs in."""
    names = labels(rows)
    curves = {
        (row.model, names[row.name]): [
            ChartPoint(across(row, step), value) for step, value in row.runs[0]["curve"]
        ]
        for row in rows
    }
    return styled(curves, {})


def span_of(rows: Iterable[ComparedRow], published: Iterable[PublishedRow] = ()) -> Span:
    """The vertical axis of all charts of these rows: 0 to 1, or what bits, perplexity or F1 need."""
    rows = list(rows)
    if rows[0].metric in METRICS:
        return 0.0, 1.0
    ends = [row.mean + sign * row.deviation for row in rows for sign in (-1, 1)]
    ends += (value for row in published if (value := reference_of(row)) is not None)
    return min(ends), max(ends)


def curve_span(rows: Sequence[ComparedRow]) -> Span:
    """As `span_of`, of validation: an untrained model is far above."""
    if rows[0].metric in METRICS:
        return 0.0, 1.0
    curves = [[value for _, value in row.runs[0]["curve"]] for row in rows if row.runs[0]["curve"]]
    lowest = min((min(curve) for curve in curves), default=0.0)
    highest = max((max(curve) for curve in curves), default=1.0)
    return lowest, min(highest, TOP_OF_CURVES * max((curve[-1] for curve in curves), default=highest))
