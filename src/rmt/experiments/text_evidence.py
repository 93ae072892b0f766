"""What rows show of the paper's claims on language models: recurrence, memory, depth, memory with a cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rmt.experiments.comparable import alike
from rmt.experiments.comparison import ComparedRow, Exhibits
from rmt.experiments.evidence import Evidence, as_good, better
from rmt.experiments.paper import OF_TEXT

FEWEST_TOKENS = 4  # memory that is more than the paper's single token
CACHES = (2, 10)  # times the memory: the paper says up to ten


def text_pairs(exhibits: Exhibits) -> Iterator[tuple[ComparedRow, ComparedRow]]:
    """Rows of the same text that are trained alike, both ways round; each cell is taken once."""
    rows = {id(row.record): row for name in OF_TEXT for row in exhibits.get(name, [])}.values()
    yield from ((first, second) for first in rows for second in rows if alike(first, second))


def recurrence_helps(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in text_pairs(exhibits):
        plain = second.model in ("baseline", "memory_transformer")
        if first.model in ("rmt", "transformer_xl") and plain:
            yield better(first, second)


def smaller_memory(exhibits: Exhibits) -> Iterator[Evidence]:
    """RMT, trained through borders, against the cache nearest to ten times its memory, from twice on."""
    caches: dict[int, list[tuple[ComparedRow, ComparedRow]]] = defaultdict(list)
    for first, second in text_pairs(exhibits):
        models = (first.model, second.model) == ("rmt", "transformer_xl")
        within = CACHES[0] * first.memory <= second.cache <= CACHES[1] * first.memory
        if models and first.depth != "0" and within:
            caches[id(first.record)].append((first, second))
    for both in caches.values():
        yield as_good(*max(both, key=lambda pair: pair[1].cache))


def deeper_is_better(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in text_pairs(exhibits):
        alone = first.model == second.model == "rmt" and first.memory == second.memory
        if alone and second.depth == "0" and first.depth != "0":
            yield better(first, second)


def enough_memory(exhibits: Exhibits) -> Iterator[Evidence]:
    """The smaller of two memories is as good."""
    for first, second in text_pairs(exhibits):
        alone = first.model == second.model == "rmt" and first.depth == second.depth != "0"
        if alone and FEWEST_TOKENS <= first.memory < second.memory:
            yield as_good(first, second)


def both_are_best(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in text_pairs(exhibits):
        models = (first.model, second.model) == ("transformer_xl_rmt", "transformer_xl")
        if models and first.cache == second.cache:
            yield better(first, second)
