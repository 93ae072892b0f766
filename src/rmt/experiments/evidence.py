"""What rows of a report show: that a model is better, as good, or solves a task; or they decide nothing.

A row is its mean, give or take its deviation over seeds. A row of one seed has no deviation: it is taken to
be `SINGLE`. The lead of one row over another is then an interval, from the difference of the means less both
deviations to the difference plus both.

- Better: the whole interval is above `NEAR`. Refuted where all of it is below -`NEAR`.
- As good: the whole interval is above -`SIMILAR`. Refuted where all of it is below.
- The same: the whole interval is within ±`SIMILAR`. Refuted where all of it is outside.
- Solved: every seed reaches `SOLVED`. Refuted where no seed does.
- Memory is used: for each operation some head spends `USED` of its attention on it. Refuted where for one of
  them all heads spend less than `UNUSED`.

Two rows of which neither is better than the constant answer do not show that one is as good as the other.
Whatever is neither shown nor refuted is undecided: ties where a model should be better, noise where two
should be equal, a task that some seeds solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmt.experiments.comparison import ComparedRow

SOLVED = 0.95  # accuracy
# by sign of the metric, 1: of an accuracy or F1; -1: of bits or perplexity, as a part of them
NEAR = {1: 0.01, -1: 0.003}  # a lead above this makes better
SIMILAR = {1: 0.02, -1: 0.01}  # a lead within this leaves as good; the paper underlines pairs .7 % apart
SINGLE = {1: 0.05, -1: 0.01}  # deviation of one seed: three in four of the paper's rows deviate by less
USED, UNUSED = (
    0.5,
    0.2,
)  # share of its rows' attention from which, and below which, a head does an operation or none
WORDS = {True: "shown", None: "undecided", False: "refuted"}
Outcome = bool | None  # shown, refuted, or none = undecided


class Evidence(NamedTuple):
    """Rows, and whether they show what is claimed."""

    holds: Outcome
    rows: tuple[ComparedRow, ...]
    note: str = ""

    def __str__(self) -> str:
        shown = " against ".join(f"{row.name} {score(row)}" for row in self.rows)
        notes = [note for note in (self.note, *self.beyond_reach) if note]
        return f"{WORDS[self.holds]}: {'; '.join([shown, *notes])}"

    @property
    def is_of_one_seed(self) -> bool:
        """Whether a row has one seed, so that its deviation is a guess."""
        return any(len(row.values) == 1 for row in self.rows)

    @property
    def beyond_reach(self) -> tuple[str, ...]:
        """Where a cache cannot reach what a task asks for, however it is trained."""
        return tuple(filter(None, map(reason_out_of_reach, self.rows)))


def score(row: ComparedRow) -> str:
    """Mean ± deviation and the number of seeds."""
    if len(row.values) == 1:
        return f"{row.mean:.3f} (1 seed)"
    return f"{row.mean:.3f} ± {row.deviation:.3f} ({len(row.values)} seeds)"


def reason_out_of_reach(row: ComparedRow) -> str:
    """Why a cache cannot solve its task; nothing if it could."""
    farthest = 0 if row.reach is None else max(row.asked.values(), default=0)
    if row.reach is None or farthest <= row.reach:
        return ""
    return f"the cache of {row.name} cannot reach: {row.reach} of {farthest} tokens by arithmetic"


def outcome(shown: bool, refuted: bool) -> Outcome:
    return True if shown else False if refuted else None


def better(first: ComparedRow, second: ComparedRow) -> Evidence:
    lead = lead_of(first, second)
    near = NEAR[first.sign] * scale(second)
    return Evidence(outcome(lead.least > near, lead.most < -near), (first, second))


def as_good(first: ComparedRow, second: ComparedRow) -> Evidence:
    """As good or better, of which two rows that learned nothing say nothing."""
    if is_at_chance(first) and is_at_chance(second):
        return Evidence(None, (first, second), "both at chance")
    lead = lead_of(first, second)
    similar = SIMILAR[first.sign] * scale(second)
    return Evidence(outcome(lead.least >= -similar, lead.most < -similar), (first, second))


def same(first: ComparedRow, second: ComparedRow) -> Evidence:
    lead = lead_of(first, second)
    similar = SIMILAR[first.sign] * scale(second)
    is_within = -similar <= lead.least and lead.most <= similar
    is_outside = lead.least > similar or lead.most < -similar
    return Evidence(outcome(is_within, is_outside), (first, second))


def is_at_chance(row: ComparedRow) -> bool:
    """Whether a row is known to be no better than the constant answer."""
    if row.constant is None:
        return False
    return row.sign * (row.mean - row.constant) <= NEAR[row.sign] * scale(row)


class Lead(NamedTuple):
    """How far a row is ahead of another, at least and at most; below 0 it is behind."""

    least: float
    most: float


def lead_of(first: ComparedRow, second: ComparedRow) -> Lead:
    difference = first.sign * (first.mean - second.mean)
    both = noise(first) + noise(second)
    return Lead(round(difference - both, 9), round(difference + both, 9))


def noise(row: ComparedRow) -> float:
    """The deviation over seeds, or what stands for it where there is one seed."""
    return row.deviation if len(row.values) > 1 else SINGLE[row.sign] * scale(row)


def scale(row: ComparedRow) -> float:
    """What `NEAR`, `SIMILAR` and `SINGLE` are parts of."""
    return 1.0 if row.sign > 0 else abs(row.mean)


def solved(row: ComparedRow) -> Evidence:
    """A task is solved if every seed solves it."""
    seeds = len(row.values)
    count = solving_seeds(row)
    note = f"{count} of {seeds} seeds solve it" if 0 < count < seeds else ""
    return Evidence(outcome(count == seeds, count == 0), (row,), note)


def unsolved(row: ComparedRow) -> Evidence:
    """A task is not solved if no seed solves it."""
    evidence = solved(row)
    return evidence._replace(holds=None if evidence.holds is None else not evidence.holds)


def solving_seeds(row: ComparedRow) -> int:
    return sum(value >= SOLVED for value in row.values)


def close_to(row: ComparedRow, baseline: ComparedRow) -> Evidence:
    """Whether an accuracy is nearer to the baseline's than to 1."""
    halfway = (baseline.mean + 1) / 2
    uncertain = noise(row) + noise(baseline) / 2
    below = halfway - row.mean
    return Evidence(outcome(below > uncertain, -below > uncertain), (row, baseline))


def uses_memory(row: ComparedRow, operations: Sequence[str]) -> Evidence:
    """Whether there is a head for each of these operations of memory."""
    maps = [row.maps[operation] for operation in operations if operation in row.maps]
    notes = [f"{drawn.operation} {drawn.mass:.2f} ({drawn.head}, {drawn.finding.order})" for drawn in maps]
    notes += [f"no map of {operation}" for operation in operations if operation not in row.maps]
    least = min(drawn.mass for drawn in maps)
    is_shown = least >= USED and len(maps) == len(operations)
    return Evidence(outcome(is_shown, least < UNUSED), (row,), ", ".join(notes))
