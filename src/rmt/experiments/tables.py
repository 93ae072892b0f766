"""Rows of a report as text: in Markdown for a terminal, in LaTeX for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rmt.experiments.budget import between, exhibit_budget, names, summary
from rmt.experiments.claims import verdicts
from rmt.experiments.comparison import ComparedRow, Record, rows_of
from rmt.experiments.equal_time import ABOUT as EQUAL_TIME
from rmt.experiments.equal_time import HEADINGS as TIME_HEADINGS
from rmt.experiments.equal_time import at_equal_time
from rmt.experiments.labels import DASH, EDGE, carried, how, model_name
from rmt.experiments.map_figures import ABOUT as ABOUT_MAPS
from rmt.experiments.map_figures import FIGURES, map_lines
from rmt.experiments.map_figures import HEADINGS as MAP_HEADINGS
from rmt.experiments.orders import order_lines
from rmt.experiments.report import markdown
from rmt.experiments.verdicts import NOT_MEASURED, by_evidence, verdict_lines

TITLES = {
    "figure-3": "Figure 3: copy, reverse, associative retrieval",
    "figure-4": "Figure 4: long copies",
    "figure-5": "Figure 5: depth of BPTT, memory, cache",
    "figure-6": "Figure 6: operations of memory",
    "figure-8": "Figure 8: limited memory",
    "figure-9": "Figure 9: compression into memory of half a segment",
    "table-1": "Table 1: quadratic equations",
    "table-2": "Table 2: language models of words",
    "table-3": "Table 3: documents",
    "table-4": "Table 4: enwik8",
    "table-5": "Table 5: all language models of words",
}
MOST_COMPARISONS = 8  # of a claim that text shows
AT_EDGE = f"{EDGE} the largest or the smallest of the rates tried: beyond it may be a better one."
SPECIAL = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%_#${}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "·": r"$\cdot$",
    "−": "$-$",
    EDGE: r"\ddag{}",
    DASH: "--",
}


class Fields(NamedTuple):
    """A row as text."""

    task: str
    segments: str
    model: str
    carried: str
    printed: str
    files: str
    ours: str
    original: str
    difference: str
    how: str
    updates: str
    recipe: str
    source: str


HEADINGS = (
    *("task", "segments", "model", "memory, cache", "paper", "its files", "ours", "ours, paper's metric"),
    *("difference", "how", "updates", "recipe", "source"),
)


def fields_of(row: ComparedRow) -> Fields:
    published = row.published
    return Fields(
        row.task,
        f"{row.segments} × {row.length}" if row.segments else f"of {row.length}",
        model_name(row),
        carried(row),
        str(published.printed) if published and published.printed else DASH,
        str(published.measured) if published and published.measured else DASH,
        ours(row),
        DASH if row.original is None else number(row.original, row),
        difference(row),
        how(row) or DASH,
        between(run["steps"] for run in row.runs),
        row.recipe,
        names(row.runs, "source"),
    )


def number(value: float, row: ComparedRow) -> str:
    return f"{value:.2f}" if row.metric == "perplexity" else f"{value:.4f}"


def ours(row: ComparedRow) -> str:
    """Mean ± sample deviation and the number of seeds."""
    if len(row.values) == 1:
        return f"{number(row.mean, row)} (1 seed)"
    return f"{number(row.mean, row)} ± {number(row.deviation, row)} ({len(row.values)} seeds)"


def difference(row: ComparedRow) -> str:
    if row.difference is None:
        return DASH
    return f"{round(row.difference, 3) or 0.0:+.3f}".replace("-", "−").replace("+0.000", "0.000")


class TextTable(NamedTuple):
    """A table without the columns that say nothing in it."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def text_table(rows: Sequence[ComparedRow]) -> TextTable:
    fields = [fields_of(row) for row in rows]
    kept = [index for index in range(len(HEADINGS)) if any(line[index] != DASH for line in fields)]
    return TextTable(
        tuple(HEADINGS[index] for index in kept), [tuple(line[index] for index in kept) for line in fields]
    )


def note(rows: Sequence[ComparedRow]) -> str:
    return AT_EDGE if any(row.edge for row in rows) else ""


def markdown_report(records: Sequence[Record]) -> str:
    """Claims and tables for a terminal."""
    exhibits = rows_of(records)
    parts = [summary(exhibits)] if exhibits else []
    for name, rows in exhibits.items():
        table = markdown(*text_table(rows))
        parts += filter(None, (f"## {TITLES[name]}", exhibit_budget(name, rows), table, note(rows)))
        for timed in at_equal_time(name, rows):
            parts += [
                f"{timed.title}. {EQUAL_TIME}",
                markdown(TIME_HEADINGS, (row.texts for row in timed.rows)),
            ]
    for name, panels in FIGURES.items():
        if lines := map_lines([*panels(exhibits)]):
            parts += [f"## {TITLES[name]}", ABOUT_MAPS, markdown(MAP_HEADINGS, lines)]
    judged, others = by_evidence(verdicts(exhibits))
    claims = [
        "\n".join([f"- {verdict.claim.text} ({verdict.claim.exhibit}): **{word}**", *indented(comparisons)])
        for verdict in judged
        for word, *comparisons in [verdict_lines(verdict)]
    ]
    left = "; ".join(f"{verdict.claim.text} ({verdict.claim.exhibit})" for verdict in others)
    parts += ["## Claims", "\n".join([*claims, *([f"- **{NOT_MEASURED}**: {left}"] if left else [])])]
    if compared := order_lines(exhibits):
        parts += ["## Order of the models in two sizes", "\n".join(f"- {line}" for line in compared)]
    return "\n\n".join(parts)


def indented(comparisons: Sequence[str]) -> list[str]:
    """Comparisons below their claim, the first of many; the page has all."""
    more = len(comparisons) - MOST_COMPARISONS
    rest = [f"and {more} more: rmt report --html FILE"] if more > 0 else []
    return [f"  - {line}" for line in (*comparisons[:MOST_COMPARISONS], *rest)]


def latex_report(records: Sequence[Record]) -> str:
    """A tabular of booktabs for each figure and table, and the claims as a list."""
    exhibits = rows_of(records)
    parts = [latex_table(name, rows) for name, rows in exhibits.items()]
    judged, others = by_evidence(verdicts(exhibits))
    claims = [
        f"{escaped(verdict.claim.text)}: \\emph{{{escaped(word)}}}\n{itemized(map(escaped, comparisons))}"
        for verdict in judged
        for word, *comparisons in [verdict_lines(verdict)]
    ]
    if others:
        left = escaped("; ".join(verdict.claim.text for verdict in others))
        claims.append(f"\\emph{{{NOT_MEASURED}}}: {left}")
    return "\n\n".join([*parts, itemized(claims)]) + "\n"


def itemized(items: Iterable[str]) -> str:
    """A list of LaTeX."""
    return "\n".join([r"\begin{itemize}", *(rf"  \item {item}" for item in items), r"\end{itemize}"])


def latex_table(name: str, rows: Sequence[ComparedRow]) -> str:
    """A table* of the width of the page (package graphicx), with its budget in the caption."""
    table = text_table(rows)
    lines = [" & ".join(map(escaped, line)) + r" \\" for line in (table.headings, *table.rows)]
    caption = " ".join(filter(None, (f"{TITLES[name]}.", exhibit_budget(name, rows), note(rows))))
    columns = "l" * len(table.headings)
    return "\n".join(
        [
            r"\begin{table*}",
            rf"\caption{{{escaped(caption)}}}",
            r"\resizebox{\textwidth}{!}{" + rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
        ]
    )


def escaped(text: str) -> str:
    return "".join(SPECIAL.get(sign, sign) for sign in text)
