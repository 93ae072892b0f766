"""The paper's figures drawn again from our rows, the paper's own points dotted beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from rmt.experiments.comparison import ComparedRow, reference_of
from rmt.experiments.drawing import Axes, Series, chart

NAMES = {
    "rmt": "RMT",
    "transformer_xl": "Transformer-XL",
    "memory_transformer": "Memory Transformer",
    "baseline": "baseline",
    "transformer_xl_rmt": "Transformer-XL + RMT",
}
METRICS = {
    "accuracy": "accuracy",
    "sequence_accuracy": "whole answers right",
    "perplexity": "perplexity",
    "bits_per_character": "bits per character",
    "f1": "F1",
}


def figures(exhibit: str, rows: Sequence[ComparedRow]) -> str:
    """The charts of a figure or table."""
    return "".join(CHARTS[exhibit](rows))


def label(row: ComparedRow) -> str:
    return NAMES.get(row.model, row.model)


def up(rows: Sequence[ComparedRow]) -> str:
    return METRICS[rows[0].metric]


def points(
    rows: Iterable[ComparedRow], across: Callable[[ComparedRow], float]
) -> tuple[tuple[float, float], ...]:
    return tuple((across(row), row.mean) for row in rows)


def lines(
    rows: Sequence[ComparedRow], across: Callable[[ComparedRow], float], name: Callable[[ComparedRow], str]
) -> Iterator[Series]:
    """A line per name, and the paper's where it has the same rows."""
    groups: dict[tuple[str, str], list[ComparedRow]] = defaultdict(list)
    for row in rows:
        groups[name(row), row.model].append(row)
    for (title, model), members in groups.items():
        yield Series(title, model, points(members, across))
        published = tuple(
            (across(row), reference)
            for row in members
            if row.published and (reference := reference_of(row.published)) is not None
        )
        yield Series(f"{title}, paper", model, published, dotted=True)


def compared(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    return [row for row in rows if row.depth == "full" and row.recipe != "paper"]


def over_segments(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Accuracy over the number of segments, a chart per task."""
    tasks: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in compared(rows):
        tasks[row.task].append(row)
    for task, members in tasks.items():
        if len({row.segments for row in members}) > 1:
            axes = Axes(f"{task}: over segments", "segments", up(members))
            yield chart(axes, list(lines(best_sizes(members), lambda row: row.segments, label)))


def best_sizes(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Of several sizes of memory at one place, the largest."""
    largest: dict[tuple[str, int], ComparedRow] = {}
    for row in sorted(rows, key=lambda row: row.size):
        largest[row.model, row.segments] = row
    return list(largest.values())


def over_length(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Accuracy over the tokens of a sequence, where segments and memory stay."""
    cuts: dict[tuple[int, int], list[ComparedRow]] = defaultdict(list)
    for row in compared(rows):
        if row.model != "baseline":
            cuts[row.length, row.size].append(row)
    for (length, size), members in cuts.items():
        if len({row.task for row in members}) > 1:
            title = f"segments of {length}, memory or cache {size}: over tokens"
            axes = Axes(title, "tokens", up(members))
            yield chart(axes, list(lines(members, lambda row: row.segments * row.length, label)))


def over_memory(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Bits or perplexity over memory or cache; RMT has a line for each depth."""
    for task, members in by_text(rows).items():

        def name(row: ComparedRow) -> str:
            return (
                f"{label(row)}, depth {row.depth}"
                if row.model in ("rmt", "transformer_xl_rmt")
                else label(row)
            )

        axes = Axes(f"{task}: over memory or cache", "memory tokens, or cached positions", up(members))
        yield chart(axes, list(lines(members, lambda row: row.size, name)))


def over_depth(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Bits or perplexity over the depth of BPTT, a line for each memory."""
    counted = (row for row in rows if row.model == "rmt" and row.depth != "full")
    for task, members in by_text(counted).items():
        if len({row.depth for row in members}) > 1:
            axes = Axes(f"{task}: RMT over depth", "previous segments that a gradient reaches", up(members))
            yield chart(
                axes, list(lines(members, lambda row: int(row.depth), lambda row: f"memory {row.memory}"))
            )


def over_minutes(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Validation over minutes of training, seed 0."""
    for task, members in by_text(rows).items():
        series = [Series(row.name, row.model, minutes(row)) for row in members]
        yield chart(
            Axes(f"{task}: validation over minutes", "minutes of training", up(members), False), series
        )


def minutes(row: ComparedRow) -> tuple[tuple[float, float], ...]:
    run = row.runs[0]
    return tuple((step / run["steps"] * run["seconds"] / 60, value) for step, value in run["curve"])


def by_text(rows: Iterable[ComparedRow]) -> dict[str, list[ComparedRow]]:
    texts: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in rows:
        texts[f"{row.task}, segments of {row.length}"].append(row)
    return texts


def curves(rows: Sequence[ComparedRow]) -> str:
    """Validation over updates of seed 0, a chart for each task and cut."""
    places: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in rows:
        places[f"{row.task}, {row.segments} segments" if row.segments else row.task].append(row)
    charts = []
    for title, members in places.items():
        series = [
            Series(row.name, row.model, tuple((step, value) for step, value in row.runs[0]["curve"]))
            for row in members
        ]
        charts.append(chart(Axes(f"{title}: validation, seed 0", "updates", up(members), False), series))
    return "".join(charts)


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
