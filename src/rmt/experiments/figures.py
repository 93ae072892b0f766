"""The paper's figures drawn again from our rows, the paper's own points dotted beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from rmt.experiments.comparable import usual
from rmt.experiments.comparison import ComparedRow
from rmt.experiments.drawing import chart
from rmt.experiments.labels import Row, averaged, labels, model_name, position_name, published_depth
from rmt.experiments.paper import PublishedRow
from rmt.experiments.scales import Axes
from rmt.experiments.series import (
    Reading,
    curve_series,
    curve_span,
    lines,
    papers_own,
    papers_text,
    span_of,
)

METRICS = {
    "accuracy": "accuracy",
    "sequence_accuracy": "whole answers right",
    "perplexity": "perplexity",
    "bits_per_character": "bits per character",
    "f1": "F1",
}
CARRIED = "memory tokens + cached positions"
REACHED = "previous segments that a gradient reaches"


def figures(exhibit: str, rows: Sequence[ComparedRow]) -> str:
    """The charts of a figure or table."""
    return "".join(CHARTS[exhibit](rows))


def up(rows: Sequence[ComparedRow]) -> str:
    return METRICS[rows[0].metric]


def segments_of(row: Row) -> float:
    return row.segments


def carried_of(row: Row) -> float:
    """All that a segment has of earlier ones."""
    return row.memory + row.cache


def depth_of(row: Row) -> float:
    return int(row.depth)


def over_segments(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Accuracy over the number of segments, a chart per task."""
    tasks: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in usual(rows):
        tasks[row.task].append(row)
    for task, members in tasks.items():
        if len({row.segments for row in members}) > 1:
            shown = largest_sizes(members)
            axes = Axes(f"{task}: {up(members)} over segments", "segments", up(members), span=span_of(shown))
            yield chart(axes, lines(shown, papers_own(shown), Reading(segments_of, with_answer)))


def with_answer(row: ComparedRow) -> str:
    return ", ".join(filter(None, (model_name(row), averaged(row))))


def largest_sizes(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Of several sizes of memory at one place, the largest."""
    largest: dict[tuple[str, int, bool], ComparedRow] = {}
    for row in sorted(rows, key=lambda row: row.size):
        largest[row.model, row.segments, row.averages] = row
    return list(largest.values())


def over_length(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Accuracy over the tokens of a sequence, where segments and memory stay."""
    cuts: dict[tuple[int, int], list[ComparedRow]] = defaultdict(list)
    for row in usual(rows):
        if row.model != "baseline":
            cuts[row.length, row.size].append(row)
    for (length, size), members in cuts.items():
        if len({row.task for row in members}) > 1:
            title = f"segments of {length}, memory or cache {size}: {up(members)} over tokens"
            axes = Axes(title, "tokens", up(members), span=span_of(members))
            reading = Reading(lambda row, length=length: row.segments * length)  # type: ignore[misc]
            yield chart(axes, lines(members, papers_own(members), reading))


def over_memory(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Bits or perplexity over memory and cache; RMT has a line for each depth."""
    for text, members in by_text(rows).items():
        names = labels(members, always=("depth",), never=("memory", "cache"))
        published = papers_text(members)
        axes = Axes(f"{text}: over memory and cache", CARRIED, up(members), span=span_of(members, published))
        reading = Reading(carried_of, lambda row, names=names: names[row.name], with_depth)  # type: ignore[misc]
        yield chart(axes, lines(members, published, reading))


def with_depth(row: PublishedRow) -> str:
    return ", ".join(filter(None, (model_name(row), published_depth(row))))


def over_depth(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Bits or perplexity over the depth of BPTT, a line for each memory."""
    for text, members in by_text(rows).items():
        counted = [row for row in members if is_counted(row)]
        if len({row.depth for row in counted}) > 1:
            published = [row for row in papers_text(members) if is_counted(row)]
            span = span_of(counted, published)
            axes = Axes(f"{text}: RMT over depth (an axis of its own)", REACHED, up(members), span=span)
            yield chart(axes, lines(counted, published, Reading(depth_of, with_memory, with_memory)))


def is_counted(row: Row) -> bool:
    """Whether a row is of RMT with a depth that is a number."""
    return row.model == "rmt" and row.depth != "full"


def with_memory(row: Row) -> str:
    return f"{model_name(row)}, memory {row.memory}"


def over_minutes(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Validation over minutes of training, seed 0."""
    for text, members in by_text(rows).items():
        title = f"{text}: validation over minutes, seed 0"
        axes = Axes(title, "minutes of training", up(members), False, curve_span(members))
        yield chart(axes, curve_series(members, minutes))


def minutes(row: ComparedRow, step: int) -> float:
    run = row.runs[0]
    return float(step / run["steps"] * run["seconds"] / 60)


def by_text(rows: Iterable[ComparedRow]) -> dict[str, list[ComparedRow]]:
    texts: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in rows:
        texts[f"{row.task}, segments of {row.length}"].append(row)
    return texts


def curves(rows: Sequence[ComparedRow]) -> str:
    """Validation over updates of seed 0, a chart for each task, cut and number of updates."""
    places: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in rows:
        places[f"{position_name(row)}, {row.updates:,} updates"].append(row)
    return "".join(
        chart(
            Axes(f"{title}: validation, seed 0", "updates", up(members), False, curve_span(members)),
            curve_series(members, lambda row, step: step),
        )
        for title, members in places.items()
    )


def together(
    *makers: Callable[[Sequence[ComparedRow]], Iterator[str]],
) -> Callable[[Sequence[ComparedRow]], Iterator[str]]:
    return lambda rows: (figure for maker in makers for figure in maker(rows))


CHARTS = {
    "figure-3": over_segments,
    "figure-4": together(over_segments, over_length),
    "figure-5": together(over_memory, over_depth),
    "figure-8": over_segments,
    "table-1": lambda rows: iter(()),
    "table-2": over_memory,
    "table-3": over_segments,
    "table-4": together(over_memory, over_minutes),
    "table-5": together(over_memory, over_depth),
}
