"""Whether models come in the same order at a small size as at a large one, position by position."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rmt.experiments.comparable import usual
from rmt.experiments.comparison import MODELS, ComparedRow, Exhibits, rank
from rmt.experiments.evidence import Outcome, better, score
from rmt.experiments.labels import NAMES

Size = tuple[int, int]  # layers, width
Best = dict[str, ComparedRow]  # the best row of each model


class OrderOfTwo(NamedTuple):
    """Two models at one position, at a small size and at a large one."""

    exhibit: str
    position: str
    small: tuple[ComparedRow, ComparedRow]
    large: tuple[ComparedRow, ComparedRow]

    @property
    def outcome(self) -> Outcome:
        """Whether the order is the same; undecided where the noise of either size decides none."""
        first, second = (better(*rows).holds for rows in (self.small, self.large))
        return None if None in (first, second) else first == second

    def __str__(self) -> str:
        models = " and ".join(NAMES[row.model] for row in self.small)
        sizes = "; ".join(f"{size_name(rows[0])}: {scores(rows)}" for rows in (self.small, self.large))
        return f"{self.exhibit}, {self.position}: {models}: {sizes}"


def size_of(row: ComparedRow) -> Size:
    model = row.record["config"]["model"]
    return model["layers"], model["width"]


def size_name(row: ComparedRow) -> str:
    layers, width = size_of(row)
    return f"{layers} layers × {width}"


def scores(rows: Iterable[ComparedRow]) -> str:
    return " against ".join(map(score, rows))


def orders(exhibits: Exhibits) -> list[OrderOfTwo]:
    """Every two models that a figure has at one position in two sizes; of more sizes, the ends."""
    return [order for name, rows in exhibits.items() for order in orders_in(name, rows)]


def orders_in(exhibit: str, rows: Iterable[ComparedRow]) -> Iterator[OrderOfTwo]:
    positions: dict[str, dict[Size, list[ComparedRow]]] = defaultdict(lambda: defaultdict(list))
    members = list(rows)
    for row in (*usual(members), *(row for row in members if not row.segments)):
        if row.model in MODELS:
            positions[position_of(row)][size_of(row)].append(row)
    for position, sizes in positions.items():
        if any(has_several_texts(rows) for rows in sizes.values()):
            continue
        small, large = (best_of_models(sizes[size]) for size in (min(sizes), max(sizes)))
        models = sorted(small.keys() & large.keys(), key=lambda model: rank(model, MODELS))
        if len(sizes) > 1:
            for first, second in itertools.combinations(models, 2):
                both = ((of[first], of[second]) for of in (small, large))
                yield OrderOfTwo(exhibit, position, *both)


def position_of(row: ComparedRow) -> str:
    """A kind of task in so many segments, whatever its length; or any text."""
    kind = row.task.partition("-")[0]
    return f"{kind} in {row.segments} segment{'s' * (row.segments > 1)}" if row.segments else "text"


def has_several_texts(rows: Iterable[ComparedRow]) -> bool:
    """Whether rows are of language models on more than one text."""
    return len({row.task for row in rows if not row.segments}) > 1


def best_of_models(rows: Sequence[ComparedRow]) -> Best:
    ranked = sorted(rows, key=lambda row: row.sign * row.mean)
    return {row.model: row for row in ranked}


def order_lines(exhibits: Exhibits) -> list[str]:
    """How many orders are the same, then those that are not; nothing where there is one size."""
    compared = orders(exhibits)
    if not compared:
        return []
    counts = Counter(order.outcome for order in compared)
    summary = (
        f"Of {len(compared)} pairs of models at one position in two sizes, {counts[True]} come in the same "
        f"order, {counts[None]} are open (too close at a size), {counts[False]} are reversed."
    )
    return [summary, *(f"reversed: {order}" for order in compared if order.outcome is False)]
