"""What the paper claims, and whether the rows of a report show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from rmt.experiments.comparison import ComparedRow

SOLVED = 0.95  # accuracy
NEAR = {
    1: 0.01,
    -1: 0.003,
}  # differences that count as none: of an accuracy; of bits or perplexity, as a part
Exhibits = Mapping[str, list[ComparedRow]]
TEXTS = ("figure-5", "table-2", "table-4", "table-5")


class Evidence(NamedTuple):
    """Rows, and whether they show a claim."""

    holds: bool
    rows: tuple[ComparedRow, ...]

    def __str__(self) -> str:
        shown = " against ".join(f"{row.name} {row.mean:.3f}" for row in self.rows)
        return shown if self.holds else f"not: {shown}"


class Claim(NamedTuple):
    """A sentence of the paper, where it stands, and what would show it."""

    text: str
    exhibit: str
    evidence: Callable[[Exhibits], Iterable[Evidence]]


class Verdict(NamedTuple):
    """A claim as it was measured."""

    claim: Claim
    evidence: tuple[Evidence, ...]

    @property
    def word(self) -> str:
        shown = {each.holds for each in self.evidence}
        if not shown:
            return "not measured"
        if shown == {True}:
            return "holds"
        return "holds with a condition" if True in shown else "does not hold"

    @property
    def condition(self) -> str:
        """Where a claim that holds in part does."""
        count = sum(each.holds for each in self.evidence)
        return (
            f"in {count} of {len(self.evidence)} comparisons" if self.word == "holds with a condition" else ""
        )


def verdicts(exhibits: Exhibits) -> list[Verdict]:
    return [Verdict(claim, tuple(claim.evidence(exhibits))) for claim in CLAIMS]


def margin(first: ComparedRow, second: ComparedRow) -> float:
    """What two rows have to differ by: their deviations, and a little."""
    near = NEAR[first.sign] * (1.0 if first.sign > 0 else second.mean)
    return first.deviation + second.deviation + near


def better(first: ComparedRow, second: ComparedRow) -> bool:
    return first.sign * (first.mean - second.mean) > margin(first, second)


def worse(first: ComparedRow, second: ComparedRow) -> bool:
    return better(second, first)


def solved(row: ComparedRow) -> bool:
    return row.mean >= SOLVED


def usual(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    """The rows of the comparison itself: full depth, the recipe that all have."""
    return [row for row in rows if row.depth == "full" and row.recipe != "paper"]


def of_model(exhibits: Exhibits, names: Iterable[str], model: str) -> list[ComparedRow]:
    return [row for name in names for row in exhibits.get(name, []) if row.model == model]


def positions(rows: Iterable[ComparedRow]) -> list[dict[str, ComparedRow]]:
    """Models that are compared: of one task, cut and size of memory or cache; the baseline goes with each."""
    groups: dict[tuple[str, int, int], dict[str, ComparedRow]] = defaultdict(dict)
    baselines = {}
    for row in usual(rows):
        if row.model == "baseline":
            baselines[row.task, row.segments] = row
        else:
            groups[row.task, row.segments, row.size][row.model] = row
    return [
        models | ({"baseline": baselines[key[:2]]} if key[:2] in baselines else {})
        for key, models in groups.items()
    ]


def pairs(rows: Iterable[ComparedRow], first: str, second: str) -> Iterator[tuple[ComparedRow, ComparedRow]]:
    for models in positions(rows):
        if first in models and second in models:
            yield models[first], models[second]


def one_segment(exhibits: Exhibits) -> Iterator[Evidence]:
    for row in usual(exhibits.get("figure-3", [])):
        if row.segments == 1:
            yield Evidence(solved(row), (row,))


def baseline_fails(exhibits: Exhibits) -> Iterator[Evidence]:
    for row in of_model(exhibits, ("figure-3", "figure-4"), "baseline"):
        if row.segments > 1:
            yield Evidence(not solved(row), (row,))


def memory_transformer_is_baseline(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in pairs(exhibits.get("figure-3", []), "memory_transformer", "baseline"):
        yield Evidence(not better(first, second) and not worse(first, second), (first, second))


def rmt_solves(exhibit: str) -> Callable[[Exhibits], Iterator[Evidence]]:
    def evidence(exhibits: Exhibits) -> Iterator[Evidence]:
        for row in usual(of_model(exhibits, (exhibit,), "rmt")):
            yield Evidence(solved(row), (row,))

    return evidence


def rmt_beats_cache(exhibit: str, most: bool = False) -> Callable[[Exhibits], Iterator[Evidence]]:
    """RMT against Transformer-XL at all positions of copy and reverse, or where segments are the most."""

    def evidence(exhibits: Exhibits) -> Iterator[Evidence]:
        compared = [
            pair
            for pair in pairs(exhibits.get(exhibit, []), "rmt", "transformer_xl")
            if pair[0].task != "retrieval"
        ]
        for first, second in compared:
            largest = max(row.segments for row, _ in compared if row.task == first.task)
            if not most or first.segments == largest:
                yield Evidence(better(first, second), (first, second))

    return evidence


def cache_fails(exhibits: Exhibits) -> Iterator[Evidence]:
    """Transformer-XL where copy has the most segments: nearer to the baseline than to a solution."""
    rows = [
        row for row in usual(exhibits.get("figure-3", [])) if row.task.startswith("copy") and row.segments > 1
    ]
    for row in rows:
        if row.model == "transformer_xl" and row.segments == max(each.segments for each in rows):
            yield Evidence(row.mean < 0.5, (row,))


def retrieval_5(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in pairs(exhibits.get("figure-3", []), "transformer_xl", "rmt"):
        if first.task == "retrieval" and first.segments == 5:
            yield Evidence(better(first, second), (first, second))


def without_gradient(exhibits: Exhibits) -> Iterator[Evidence]:
    for row in of_model(exhibits, ("figure-3",), "rmt"):
        if row.depth == "0":
            yield Evidence(solved(row), (row,))


def equations(exhibits: Exhibits) -> Iterator[Evidence]:
    whole = next((row for row in of_model(exhibits, ("table-1",), "baseline") if row.segments == 1), None)
    for first, second in pairs(exhibits.get("table-1", []), "rmt", "transformer_xl"):
        yield Evidence(better(first, second), (first, second))
        if whole:
            yield Evidence(not worse(first, whole), (first, whole))


def texts(exhibits: Exhibits) -> list[ComparedRow]:
    """Rows of texts, each cell once."""
    return list({row.name: row for name in TEXTS for row in exhibits.get(name, [])}.values())


def same_text(first: ComparedRow, second: ComparedRow) -> bool:
    return (first.task, first.length, first.recipe) == (second.task, second.length, second.recipe) and len(
        {str(row.record["config"]["train"]["steps"]) for row in (first, second)}
    ) == 1


def recurrence_helps(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = texts(exhibits)
    for first in rows:
        for second in rows:
            plain = second.model in ("baseline", "memory_transformer")
            if first.model in ("rmt", "transformer_xl") and plain and same_text(first, second):
                yield Evidence(better(first, second), (first, second))


def smaller_memory(exhibits: Exhibits) -> Iterator[Evidence]:
    """RMT, trained through borders, against the cache nearest to ten times its memory."""
    rows = texts(exhibits)
    for first in rows:
        if first.model != "rmt" or first.depth == "0":
            continue
        caches = [row for row in rows if row.model == "transformer_xl" and same_text(first, row)]
        larger = [row for row in caches if 2 * first.memory <= row.cache <= 20 * first.memory]
        if larger:
            second = min(larger, key=lambda row: abs(row.cache - 10 * first.memory))
            yield Evidence(not worse(first, second), (first, second))


def deeper_is_better(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = [row for row in texts(exhibits) if row.model == "rmt"]
    for first in rows:
        for second in rows:
            alike = same_text(first, second) and first.memory == second.memory
            if alike and second.depth == "0" and first.depth != "0":
                yield Evidence(better(first, second), (first, second))


def enough_memory(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = [row for row in texts(exhibits) if row.model == "rmt" and row.depth != "0"]
    for first in rows:
        for second in rows:
            alike = same_text(first, second) and first.depth == second.depth
            if alike and first.memory > second.memory >= 4:
                yield Evidence(not better(first, second), (first, second))


def both_are_best(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = texts(exhibits)
    for first in rows:
        for second in rows:
            alike = same_text(first, second) and first.cache == second.cache
            if alike and (first.model, second.model) == ("transformer_xl_rmt", "transformer_xl"):
                yield Evidence(better(first, second), (first, second))


def documents(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = exhibits.get("table-3", [])
    for first in rows:
        for second in rows:
            if first.model == second.model and second.segments == 1 and first.segments > 1:
                yield Evidence(better(first, second), (first, second))


def never(exhibits: Exhibits) -> Iterator[Evidence]:
    """No rows can show it."""
    return iter(())


CLAIMS = (
    Claim("In a single segment copy, reverse and retrieval are solved", "figure-3", one_segment),
    Claim("In more segments a model without recurrence does not solve them", "figure-3", baseline_fails),
    Claim("The Memory Transformer does as the baseline", "figure-3", memory_transformer_is_baseline),
    Claim(
        "RMT solves copy, reverse and retrieval in any number of segments", "figure-3", rmt_solves("figure-3")
    ),
    Claim(
        "RMT outperforms Transformer-XL on copy and reverse with the most segments",
        "figure-3",
        rmt_beats_cache("figure-3", most=True),
    ),
    Claim(
        "Transformer-XL falls close to the baseline where copy has the most segments", "figure-3", cache_fails
    ),
    Claim("On retrieval in 5 segments Transformer-XL is ahead of RMT", "figure-3", retrieval_5),
    Claim("No gradient has to pass between segments for this (caption)", "figure-3", without_gradient),
    Claim("RMT solves long copies, in more segments and of more tokens", "figure-4", rmt_solves("figure-4")),
    Claim("RMT outperforms Transformer-XL on long copies", "figure-4", rmt_beats_cache("figure-4")),
    Claim("RMT solves copy and reverse with memory of half a segment", "figure-8", rmt_solves("figure-8")),
    Claim("Transformer-XL with such a cache does worse", "figure-8", rmt_beats_cache("figure-8")),
    Claim(
        "On equations RMT does as one whole segment does, and better than Transformer-XL",
        "table-1",
        equations,
    ),
    Claim("Language models with recurrence outperform those without", "table-2", recurrence_helps),
    Claim(
        "RMT does as well with a memory far smaller than Transformer-XL's cache", "figure-5", smaller_memory
    ),
    Claim("Deeper BPTT improves RMT", "figure-5", deeper_is_better),
    Claim("More memory than a few tokens adds little", "figure-5", enough_memory),
    Claim("Transformer-XL with memory outperforms Transformer-XL", "table-2", both_are_best),
    Claim("Memory and more segments improve pretrained models on documents", "table-3", documents),
    Claim(
        "Attention shows writing, reading and rewriting of memory (rmt attention RUN draws it)",
        "figure-6",
        never,
    ),
)
