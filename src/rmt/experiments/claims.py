"""What the paper claims, and whether the rows of a report show it.

Each claim yields evidence: rows that show it, refute it, or leave it undecided (`rmt.experiments.evidence`
says when), and only of runs that differ in their model alone (`rmt.experiments.comparable`). What that makes
of a claim is in `rmt.experiments.verdicts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import permutations

from rmt.experiments.comparable import pairs, trained_alike, tuned_alike, usual
from rmt.experiments.comparison import ComparedRow, Exhibits
from rmt.experiments.evidence import (
    Evidence,
    as_good,
    better,
    close_to,
    same,
    solved,
    solving_seeds,
    unsolved,
    uses_memory,
)
from rmt.experiments.most_segments import cuts, lacking, most_segments
from rmt.experiments.text_evidence import (
    both_are_best,
    deeper_is_better,
    enough_memory,
    recurrence_helps,
    smaller_memory,
)
from rmt.experiments.verdicts import Claim, Verdict

TASKS = ("copy", "reverse", "retrieval")
TWO_TASKS = ("copy", "reverse")
LONGEST = 720  # tokens of a copy before RMT degrades, in the paper


def verdicts(exhibits: Exhibits) -> list[Verdict]:
    return [
        Verdict(claim, tuple(claim.evidence(exhibits)), tuple(claim.lacking(exhibits))) for claim in CLAIMS
    ]


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
    """RMT on the shortest of the long copies that are cut into more and more segments."""
    copies: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in rmt_in_segments(exhibits, "figure-4"):
        copies[row.task].append(row)
    cut = [rows for rows in copies.values() if len({row.segments for row in rows}) > 1]
    shortest = min(cut, key=tokens_of, default=[])
    yield from map(solved, shortest)


def tokens_of(rows: list[ComparedRow]) -> int:
    """The tokens of a sequence of their task."""
    return rows[0].segments * rows[0].length


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
        if first.segments == most_segments((row for row, _ in both), "figure-3", first.task):
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
        most = most_segments(copies, "figure-3", first.task)
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
    yield from (better(*pair) for pair in pairs(rows, "rmt", "transformer_xl"))
    whole = [row for row in usual(rows) if row.model == "baseline" and row.segments == 1]
    in_segments = [row for row in usual(rows) if row.model == "rmt" and row.segments > 1]
    yield from (as_good(row, other) for row in in_segments for other in whole if trained_alike(row, other))


def documents(exhibits: Exhibits) -> Iterator[Evidence]:
    """Memory in more segments against the plain model on one."""
    for first, second in permutations(exhibits.get("table-3", []), 2):
        if first.memory and second.segments == 1 < first.segments and tuned_alike(first, second):
            yield better(first, second)


def beats_averages(exhibits: Exhibits) -> Iterator[Evidence]:
    """Memory against the mean of answers in as many segments."""
    for first, second in permutations(exhibits.get("table-3", []), 2):
        in_as_many = first.segments == second.segments
        if first.memory and second.averages and in_as_many and tuned_alike(first, second):
            yield better(first, second)


def has_maps(row: ComparedRow) -> bool:
    return {"write", "read"} <= row.maps.keys()


def memory_is_used(exhibits: Exhibits) -> Iterator[Evidence]:
    """RMT writes and reads memory; where a task has the most segments of several, it rewrites it, too."""
    rows = [row for row in rmt_in_segments(exhibits, "figure-3") if has_maps(row)]
    for row in rows:
        of_task = cuts(rows, "figure-3", row.task)
        is_longest = row.segments == max(of_task) > min(of_task)
        yield uses_memory(row, ("write", "read", "rewrite") if is_longest else ("write", "read"))


CLAIMS = (
    Claim("In a single segment copy, reverse and retrieval are solved", "figure-3", one_segment, TASKS),
    Claim(
        "In more segments a model without recurrence does not solve them", "figure-3", baseline_fails, TASKS
    ),
    Claim(
        "The Memory Transformer does in segments as the baseline does",
        "figure-3",
        memory_transformer_is_baseline,
    ),
    Claim(
        "In multiple segments RMT almost perfectly solves copy, reverse and retrieval",
        "figure-3",
        rmt_solves,
        TASKS,
    ),
    Claim(
        "RMT outperforms Transformer-XL on copy and reverse with the most segments",
        "figure-3",
        beats_cache,
        TWO_TASKS,
        lacking("figure-3", TWO_TASKS, ("rmt", "transformer_xl")),
    ),
    Claim(
        "With the most segments of copy Transformer-XL is nearer to the baseline than to a solution",
        "figure-3",
        cache_fails,
        lacking=lacking("figure-3", ("copy",), ("transformer_xl", "baseline")),
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
    Claim("RMT solves copy and reverse with memory of half a segment", "figure-8", little_memory, TWO_TASKS),
    Claim(
        "In more than two segments Transformer-XL with a cache of half a segment does worse",
        "figure-8",
        beats_little_cache,
    ),
    Claim(
        "On equations RMT does as one whole segment does, and better than Transformer-XL",
        "table-1",
        equations,
        ("baseline", "transformer_xl"),
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
        "Memory does better than the mean of segments alone (no claim of the paper)",
        "table-3",
        beats_averages,
    ),
    Claim(
        "Attention shows writing and reading of memory, and rewriting where segments are many",
        "figure-6",
        memory_is_used,
        lacking=lacking("figure-3", TASKS, ("rmt",), has_maps),
    ),
)
