"""What the paper claims, and whether the rows of a report show it.

Each claim yields evidence: rows that show it, refute it, or leave it undecided (`rmt.experiments.evidence`
says when), and only of runs that differ in their model alone (`rmt.experiments.comparable`).

- holds: all evidence shows it.
- holds with a condition: some shows it and some does not; the condition names which.
- undecided: none shows it and none refutes it.
- does not hold: none shows it and some refutes it.
- not measured: there is no evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rmt.experiments.comparable import pairs, trained_alike, tuned_alike, usual
from rmt.experiments.comparison import ComparedRow, Exhibits
from rmt.experiments.evidence import (
    WORDS,
    Evidence,
    Outcome,
    as_good,
    better,
    close_to,
    same,
    solved,
    solving_seeds,
    unsolved,
    uses_memory,
)
from rmt.experiments.text_evidence import (
    both_are_best,
    deeper_is_better,
    enough_memory,
    recurrence_helps,
    smaller_memory,
)

LONGEST = 720  # tokens of a copy before RMT degrades, in the paper


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
        outcomes = {evidence.holds for evidence in self.evidence}
        if not outcomes:
            return "not measured"
        if outcomes == {True}:
            return "holds"
        if True in outcomes:
            return "holds with a condition"
        return "does not hold" if False in outcomes else "undecided"

    @property
    def condition(self) -> str:
        """Where a claim that holds in part does, what rests on one seed, and where a cache cannot reach."""
        where = self.where if self.word == "holds with a condition" else ""
        beyond = dict.fromkeys(reason for evidence in self.evidence for reason in evidence.beyond_reach)
        remarks = "; ".join([*self.single_seeds, *beyond])
        return " ".join(filter(None, (where, f"({remarks})" if remarks else "")))

    @property
    def where(self) -> str:
        """How many comparisons show it, and the names of those that do or that do not, if fewer."""
        shown = sum(evidence.holds is True for evidence in self.evidence)
        count = f"in {shown} of {len(self.evidence)} comparisons"
        if 2 * shown < len(self.evidence):
            return f"{count}: {self.names(True)}"
        rest = [f"{WORDS[holds]}: {names}" for holds in (None, False) if (names := self.names(holds))]
        return "; ".join([count, *rest])

    @property
    def single_seeds(self) -> list[str]:
        count = sum(evidence.is_of_one_seed for evidence in self.evidence)
        return [f"1 seed in {count} of {len(self.evidence)}"] if count else []

    def names(self, holds: Outcome) -> str:
        """Where it came out so: the row that the claim is about, and the other one where it has several."""
        counts = Counter(evidence.rows[0].name for evidence in self.evidence)
        rows = (evidence.rows for evidence in self.evidence if evidence.holds is holds)
        return ", ".join(
            first.name if counts[first.name] == 1 else " against ".join(row.name for row in (first, *others))
            for first, *others in rows
        )


def verdicts(exhibits: Exhibits) -> list[Verdict]:
    return [Verdict(claim, tuple(claim.evidence(exhibits))) for claim in CLAIMS]


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict as text: its word and condition, then a line for each piece of evidence."""
    return [" ".join(filter(None, (verdict.word, verdict.condition))), *map(str, verdict.evidence)]


def of_model(exhibits: Exhibits, names: Iterable[str], model: str) -> list[ComparedRow]:
    return [row for name in names for row in exhibits.get(name, []) if row.model == model]


def one_segment(exhibits: Exhibits) -> Iterator[Evidence]:
    yield from (solved(row) for row in usual(exhibits.get("figure-3", [])) if row.segments == 1)


def baseline_fails(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = usual(of_model(exhibits, ("figure-3", "figure-4"), "baseline"))
    yield from (unsolved(row) for row in rows if row.segments > 1)


def memory_transformer_is_baseline(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in pairs(exhibits.get("figure-3", []), "memory_transformer", "baseline"):
        if first.segments > 1:
            yield same(first, second)


def half_a_segment(row: ComparedRow) -> bool:
    return 2 * row.size <= row.length


def rmt_in_segments(exhibits: Exhibits, exhibit: str) -> list[ComparedRow]:
    return [row for row in usual(of_model(exhibits, (exhibit,), "rmt")) if row.segments > 1]


def rmt_solves(exhibits: Exhibits) -> Iterator[Evidence]:
    yield from map(solved, rmt_in_segments(exhibits, "figure-3"))


def more_segments(exhibits: Exhibits) -> Iterator[Evidence]:
    """RMT on the shortest of the long copies, which is cut into more and more segments."""
    rows = rmt_in_segments(exhibits, "figure-4")
    shortest = min((row.segments * row.length for row in rows), default=0)
    yield from (solved(row) for row in rows if row.segments * row.length == shortest)


def more_tokens(exhibits: Exhibits) -> Iterator[Evidence]:
    """RMT on copies of several lengths, cut into segments of the same length, with the same memory."""
    cuts: dict[tuple[int, int], list[ComparedRow]] = defaultdict(list)
    for row in rmt_in_segments(exhibits, "figure-4"):
        cuts[row.length, row.memory].append(row)
    for rows in cuts.values():
        if len({row.task for row in rows}) > 1:
            yield from (solved(row) for row in rows if row.segments * row.length <= LONGEST)


def little_memory(exhibits: Exhibits) -> Iterator[Evidence]:
    yield from (solved(row) for row in rmt_in_segments(exhibits, "figure-8") if half_a_segment(row))


def against_cache(exhibits: Exhibits, exhibit: str) -> list[tuple[ComparedRow, ComparedRow]]:
    """RMT and Transformer-XL on copy and reverse in segments."""
    both = pairs(exhibits.get(exhibit, []), "rmt", "transformer_xl")
    return [pair for pair in both if pair[0].task != "retrieval" and pair[0].segments > 1]


def beats_cache(exhibits: Exhibits) -> Iterator[Evidence]:
    """RMT against Transformer-XL where copy and reverse have the most segments."""
    both = against_cache(exhibits, "figure-3")
    for first, second in both:
        if first.segments == max(row.segments for row, _ in both if row.task == first.task):
            yield better(first, second)


def beats_cache_on_long_copies(exhibits: Exhibits) -> Iterator[Evidence]:
    yield from (better(*pair) for pair in against_cache(exhibits, "figure-4"))


def beats_little_cache(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in against_cache(exhibits, "figure-8"):
        if half_a_segment(first) and first.segments > 2:
            yield better(first, second)


def cache_fails(exhibits: Exhibits) -> Iterator[Evidence]:
    """Transformer-XL against a baseline that fails, where copy has the most segments."""
    copies = [row for row in usual(exhibits.get("figure-3", [])) if row.task.startswith("copy")]
    for first, second in pairs(copies, "transformer_xl", "baseline"):
        most = max(row.segments for row in copies if row.task == first.task)
        if first.segments == most > 1 and not solving_seeds(second):
            yield close_to(first, second)


def retrieval_5(exhibits: Exhibits) -> Iterator[Evidence]:
    for first, second in pairs(exhibits.get("figure-3", []), "transformer_xl", "rmt"):
        if first.task == "retrieval" and first.segments == 5:
            yield better(first, second)


def without_gradient(exhibits: Exhibits) -> Iterator[Evidence]:
    for row in of_model(exhibits, ("figure-3",), "rmt"):
        if row.depth == "0" and row.segments > 1:
            yield solved(row)


def equations(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = exhibits.get("table-1", [])
    whole = [row for row in usual(rows) if row.model == "baseline" and row.segments == 1]
    for first, second in pairs(rows, "rmt", "transformer_xl"):
        yield better(first, second)
        yield from (as_good(first, row) for row in whole if trained_alike(first, row))


def documents(exhibits: Exhibits) -> Iterator[Evidence]:
    rows = exhibits.get("table-3", [])
    for first in rows:
        for second in rows:
            if second.segments == 1 and first.segments > 1 and tuned_alike(first, second):
                yield better(first, second)


def memory_is_used(exhibits: Exhibits) -> Iterator[Evidence]:
    """RMT writes and reads memory; where a task has the most segments of several, it rewrites it, too."""
    rows = [row for row in rmt_in_segments(exhibits, "figure-3") if {"write", "read"} <= row.maps.keys()]
    for row in rows:
        cuts = {other.segments for other in rows if other.task == row.task}
        is_longest = row.segments == max(cuts) > min(cuts)
        yield uses_memory(row, ("write", "read", "rewrite") if is_longest else ("write", "read"))


CLAIMS = (
    Claim("In a single segment copy, reverse and retrieval are solved", "figure-3", one_segment),
    Claim("In more segments a model without recurrence does not solve them", "figure-3", baseline_fails),
    Claim(
        "The Memory Transformer does in segments as the baseline does",
        "figure-3",
        memory_transformer_is_baseline,
    ),
    Claim(
        "In multiple segments RMT almost perfectly solves copy, reverse and retrieval", "figure-3", rmt_solves
    ),
    Claim(
        "RMT outperforms Transformer-XL on copy and reverse with the most segments", "figure-3", beats_cache
    ),
    Claim(
        "With the most segments of copy Transformer-XL is nearer to the baseline than to a solution",
        "figure-3",
        cache_fails,
    ),
    Claim("On retrieval in 5 segments Transformer-XL is ahead of RMT", "figure-3", retrieval_5),
    Claim("No gradient has to pass between segments for this (caption)", "figure-3", without_gradient),
    Claim("RMT continues to solve a copy that is split into more segments", "figure-4", more_segments),
    Claim(
        f"With the same memory RMT solves copies of up to {LONGEST} tokens (the paper's own degrades beyond)",
        "figure-4",
        more_tokens,
    ),
    Claim("RMT outperforms Transformer-XL on long copies", "figure-4", beats_cache_on_long_copies),
    Claim("RMT solves copy and reverse with memory of half a segment", "figure-8", little_memory),
    Claim(
        "In more than two segments Transformer-XL with a cache of half a segment does worse",
        "figure-8",
        beats_little_cache,
    ),
    Claim(
        "On equations RMT does as one whole segment does, and better than Transformer-XL",
        "table-1",
        equations,
    ),
    Claim("Language models with recurrence outperform those without", "table-2", recurrence_helps),
    Claim(
        "RMT does as well as Transformer-XL with a cache that is up to ten times its memory",
        "figure-5",
        smaller_memory,
    ),
    Claim(
        "Deeper BPTT improves RMT over depth 0 (at equal updates, not at equal compute)",
        "figure-5",
        deeper_is_better,
    ),
    Claim("More memory than a few tokens adds little", "figure-5", enough_memory),
    Claim("Transformer-XL with memory outperforms Transformer-XL", "table-2", both_are_best),
    Claim("Memory and more segments improve pretrained models on documents", "table-3", documents),
    Claim(
        "Attention shows writing and reading of memory, and rewriting where segments are many",
        "figure-6",
        memory_is_used,
    ),
)
