"""A claim of the paper and what came of it.

- holds: all evidence shows it, and there is some of every task and model that the claim names.
- holds with a condition: some shows it and some does not, or is missing; the condition names which.
- undecided: none shows it and none refutes it.
- does not hold: none shows it and some refutes it.
- not measured: there is no evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rmt.experiments.comparison import Exhibits
from rmt.experiments.evidence import WORDS, Evidence, Outcome
from rmt.experiments.labels import NAMES

NOT_MEASURED = "not measured"


def none_lacking(exhibits: Exhibits) -> Iterable[str]:
    return ()


class Claim(NamedTuple):
    """A sentence of the paper, where it stands, what would show it, and what it names.

    That is tasks or models, and cells that may be lacking.
    """

    text: str
    exhibit: str
    evidence: Callable[[Exhibits], Iterable[Evidence]]
    parts: tuple[str, ...] = ()
    lacking: Callable[[Exhibits], Iterable[str]] = none_lacking


class Verdict(NamedTuple):
    """A claim as it was measured."""

    claim: Claim
    evidence: tuple[Evidence, ...]
    lacking: tuple[str, ...] = ()  # cells

    @property
    def word(self) -> str:
        outcomes = {evidence.holds for evidence in self.evidence}
        if not outcomes:
            return NOT_MEASURED
        if outcomes == {True} and not self.missing:
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
    def missing(self) -> list[str]:
        """The tasks and models of the claim that no evidence is of, and the cells that are lacking."""
        rows = [row for evidence in self.evidence for row in evidence.rows]
        known = {name for row in rows for name in (row.task.partition("-")[0], row.model)}
        known |= {cell.partition("-")[0] for cell in self.lacking}
        return [*(part for part in self.claim.parts if part not in known), *self.lacking]

    @property
    def where(self) -> str:
        """How many comparisons show it, and the names of those that do or that do not, if fewer."""
        shown = sum(evidence.holds is True for evidence in self.evidence)
        count = f"in {shown} of {len(self.evidence)} comparisons"
        if 2 * shown < len(self.evidence) and not self.missing:
            return f"{count}: {self.names(True)}"
        rest = [f"{WORDS[holds]}: {names}" for holds in (None, False) if (names := self.names(holds))]
        missing = ", ".join(NAMES.get(part, part) for part in self.missing)
        return "; ".join([count, *rest, *([f"not measured: {missing}"] if missing else [])])

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


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict as text: its word and condition, then a line for each piece of evidence."""
    return [" ".join(filter(None, (verdict.word, verdict.condition))), *map(str, verdict.evidence)]


def by_evidence(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Those of claims that were measured, and the others."""
    judged: list[Verdict] = []
    others: list[Verdict] = []
    for verdict in verdicts:
        (judged if verdict.evidence else others).append(verdict)
    return judged, others
