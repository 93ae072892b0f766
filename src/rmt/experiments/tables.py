"""Rows of a report as text: in Markdown for a terminal, in LaTeX for a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rmt.experiments.claims import verdicts
from rmt.experiments.comparison import ComparedRow, Record, rows_of
from rmt.experiments.figures import NAMES
from rmt.experiments.report import markdown

TITLES = {
    "figure-3": "Figure 3: copy, reverse, associative retrieval",
    "figure-4": "Figure 4: long copies",
    "figure-5": "Figure 5: depth of BPTT, memory, cache",
    "figure-6": "Figure 6: attention",
    "figure-8": "Figure 8: limited memory",
    "table-1": "Table 1: quadratic equations",
    "table-2": "Table 2: language models of words",
    "table-3": "Table 3: documents",
    "table-4": "Table 4: enwik8",
    "table-5": "Table 5: all language models of words",
}
DASH = "–"
SPECIAL = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "−": "$-$",
}


class Fields(NamedTuple):
    """A row as text."""

    task: str
    segments: str
    model: str
    memory: str
    cache: str
    depth: str
    recipe: str
    printed: str
    files: str
    ours: str
    original: str
    difference: str
    rate: str
    updates: str
    source: str


HEADINGS = (
    *("task", "segments", "model", "memory", "cache", "depth", "recipe"),
    *("paper", "its files", "ours", "ours, original metric", "difference", "rate", "updates", "source"),
)


def fields_of(row: ComparedRow) -> Fields:
    published, difference, rate = row.published, row.difference, row.record["rate"]
    original = "" if row.original is None else number(row.original, row)
    return Fields(
        row.task,
        f"{row.segments} × {row.length}" if row.segments else f"of {row.length}",
        NAMES.get(row.model, row.model),
        str(row.memory),
        str(row.cache),
        row.depth,
        row.recipe,
        str(published.printed) if published and published.printed else DASH,
        str(published.measured) if published and published.measured else DASH,
        ours(row),
        original,
        DASH if difference is None else f"{difference:+.3f}",
        DASH if rate is None else f"{rate:g}",
        f"{row.runs[0]['steps']:,}",
        ", ".join(sorted({run["source"] for run in row.runs})),
    )


def number(value: float, row: ComparedRow) -> str:
    return f"{value:.2f}" if row.metric == "perplexity" else f"{value:.4f}"


def ours(row: ComparedRow) -> str:
    """Mean ± sample deviation and the number of seeds."""
    if len(row.values) == 1:
        return f"{number(row.mean, row)} (1 seed)"
    return f"{number(row.mean, row)} ± {number(row.deviation, row)} ({len(row.values)} seeds)"


def markdown_report(records: Sequence[Record]) -> str:
    """Claims and tables for a terminal."""
    exhibits = rows_of(records)
    parts = [
        f"## {TITLES[name]}\n\n{markdown(HEADINGS, [tuple(fields_of(row)) for row in rows])}"
        for name, rows in exhibits.items()
    ]
    lines = [
        (verdict.claim.text, verdict.claim.exhibit, " ".join(filter(None, (verdict.word, verdict.condition))))
        for verdict in verdicts(exhibits)
    ]
    return "\n\n".join([*parts, "## Claims", markdown(("the paper says", "in", "here"), lines)])


def latex_report(records: Sequence[Record]) -> str:
    """A tabular of booktabs for each figure and table, and the claims as a list."""
    exhibits = rows_of(records)
    parts = [latex_table(TITLES[name], rows) for name, rows in exhibits.items()]
    claims = (
        f"  \\item {escaped(verdict.claim.text)}: \\emph{{{verdict.word}}} {escaped(verdict.condition)}"
        for verdict in verdicts(exhibits)
    )
    return "\n\n".join([*parts, "\\begin{itemize}\n" + "\n".join(claims) + "\n\\end{itemize}"]) + "\n"


def latex_table(title: str, rows: Sequence[ComparedRow]) -> str:
    columns = "l" * len(HEADINGS)
    lines = [" & ".join(map(escaped, fields_of(row))) + r" \\" for row in rows]
    heading = " & ".join(map(escaped, HEADINGS)) + r" \\"
    body = "\n".join([r"\toprule", heading, r"\midrule", *lines, r"\bottomrule"])
    return (
        "\\begin{table}\n\\caption{" + escaped(title) + "}\n\\begin{tabular}{" + columns + "}\n" + body
        + "\n\\end{tabular}\n\\end{table}"
    )  # fmt: skip


def escaped(text: str) -> str:
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def cost_lines(exhibits: Mapping[str, Sequence[ComparedRow]]) -> Iterator[tuple[str, ...]]:
    """What each figure cost: cells, runs of the result, their seconds, hardware, source."""
    for name, rows in exhibits.items():
        runs = [run for row in rows for run in row.runs]
        yield (
            TITLES[name],
            str(len(rows)),
            str(len(runs)),
            f"{sum(run['seconds'] for run in runs):,.0f}",
            ", ".join(sorted({run["device"] for run in runs})),
            ", ".join(sorted({run["source"] for run in runs})),
        )
