"""A report as one HTML page that needs nothing beside itself: claims, figures, tables, runs, cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from rmt.experiments.budget import cost_lines, counted, exhibit_budget, summary
from rmt.experiments.claims import verdicts
from rmt.experiments.comparison import ComparedRow, Exhibits, Record, rows_of
from rmt.experiments.evidence import WORDS, Evidence
from rmt.experiments.figures import curves, figures
from rmt.experiments.labels import title as title_of
from rmt.experiments.map_figures import ABOUT as ABOUT_MAPS
from rmt.experiments.map_figures import FIGURES, drawn
from rmt.experiments.orders import order_lines
from rmt.experiments.page_style import STYLE
from rmt.experiments.page_tables import (
    anchor,
    by_segment_table,
    equal_time_table,
    labelled,
    published_table,
    rows_table,
    table,
)
from rmt.experiments.tables import TITLES
from rmt.experiments.verdicts import NOT_MEASURED, Verdict, by_evidence

VERDICT_CSS = {
    "holds": "good",
    "holds with a condition": "partly",
    "undecided": "none",
    "does not hold": "bad",
}
AGAINST_FIRST = (False, None, True)  # outcomes
LONGEST_CONDITION = 120  # characters that are shown beside a verdict
MOST_LINES = 8  # of a claim's comparisons, before the rest is folded
HEAD = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
)
ABOUT = (
    "The paper's printed numbers and those of its authors' result files beside ours: mean ± sample "
    "deviation (number of seeds), strict and free-running on the test split. A difference is by the paper's "
    "own metric: above 0, and green, where ours is better. Bars in charts are ± the deviation of n runs, "
    "hollow and dotted is the paper. “How” opens to show the runs behind a number."
)
COST = ("", "cells", "runs", "device time", "device", "source")
ORDERS = "Order of the models"
SHARED = "A cell that is part of two figures is counted in both, and once in all."


def page(records: Sequence[Record], title: str = "Recurrent Memory Transformer, reproduced") -> str:
    """The whole page."""
    exhibits = rows_of(records)
    sections = [section for section in sections_of(exhibits) if section.html]
    parts = [
        f"{HEAD}<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="summary">{escape(summary(exhibits))}</p>' if exhibits else "",
        f"<p>{escape(ABOUT)}</p>",
        contents(sections),
        *(section.html for section in sections),
        "</main></body></html>",
    ]
    return "\n".join(parts)


class Section(NamedTuple):
    """A part of the page below a heading of its own; empty where there is nothing to show."""

    anchor: str
    name: str
    html: str


def sections_of(exhibits: Exhibits) -> Iterator[Section]:
    yield Section("claims", "Claims", claims_section(verdicts(exhibits)))
    yield Section("orders", ORDERS, orders_section(exhibits))
    for name, rows in exhibits.items():
        yield Section(name, number_of(name), exhibit_section(name, rows))
    for name in FIGURES:
        yield Section(name, number_of(name), maps_section(name, exhibits))
    yield Section("cost", "Cost", cost_section(exhibits))


def number_of(exhibit: str) -> str:
    return TITLES[exhibit].partition(":")[0]


def contents(sections: Iterable[Section]) -> str:
    links = (f'<a href="#{section.anchor}">{section.name}</a>' for section in sections)
    return f"<nav>{' '.join(links)}</nav>"


def claims_section(shown: Sequence[Verdict]) -> str:
    """A line for each claim, with the rows that show it; folded, what these cells say nothing of."""
    judged, others = by_evidence(shown)
    lines = []
    for verdict in judged:
        word = f'<b class="{VERDICT_CSS[verdict.word]}">{verdict.word}</b>'
        lines.append(f"<tr><td>{claim_of(verdict)}</td><td>{word} {comparisons(verdict)}</td></tr>")
    measured = table("claims", ("the paper says", "here"), lines) if lines else ""
    left = "".join(f"<li>{claim_of(verdict)}</li>" for verdict in others)
    summary = f"{counted(len(others), 'claim')} {NOT_MEASURED}"
    folded = f"<details><summary>{summary}</summary><ul>{left}</ul></details>" if left else ""
    return f'<h2 id="claims">Claims</h2>{measured}{folded}'


def claim_of(verdict: Verdict) -> str:
    return f"{escape(verdict.claim.text)} <small>({number_of(verdict.claim.exhibit)})</small>"


def orders_section(exhibits: Exhibits) -> str:
    """Whether models come in the same order at a small size and a large one, where there are two."""
    summary, *reversed_orders = order_lines(exhibits) or [""]
    items = "".join(f"<li>{escape(line)}</li>" for line in reversed_orders)
    listed = f"<ul>{items}</ul>" if items else ""
    return f'<h2 id="orders">{ORDERS}</h2><p>{escape(summary)}</p>{listed}' if summary else ""


def comparisons(verdict: Verdict) -> str:
    """The condition and the comparisons of a verdict, those against it first; of many, the rest is folded."""
    rows = [row for evidence in verdict.evidence for row in evidence.rows]
    condition = linked(verdict.condition, rows)
    is_short = len(verdict.condition) <= LONGEST_CONDITION
    by_outcome = sorted(verdict.evidence, key=lambda evidence: AGAINST_FIRST.index(evidence.holds))
    first, rest = by_outcome[:MOST_LINES], by_outcome[MOST_LINES:]
    folded = f"<details><summary>{len(rest)} more</summary>{bullets(rest)}</details>" if rest else ""
    inside = "" if is_short else f"<p>{condition}</p>"
    return (
        f"{condition if is_short else ''}<details><summary>{counts(verdict.evidence)}</summary>"
        f"{inside}{bullets(first)}{folded}</details>"
    )


def counts(evidence: Sequence[Evidence]) -> str:
    """How many comparisons came out how."""
    outcomes = Counter(comparison.holds for comparison in evidence)
    total = counted(len(evidence), "comparison")
    if len(outcomes) == 1:
        return f"{total}, {'all ' * (len(evidence) > 1)}{WORDS[evidence[0].holds]}"
    parts = (f"{outcomes[holds]} {WORDS[holds]}" for holds in reversed(AGAINST_FIRST) if outcomes[holds])
    return f"{total}: {', '.join(parts)}"


def bullets(evidence: Sequence[Evidence]) -> str:
    lines = (linked(str(comparison), comparison.rows) for comparison in evidence)
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


def linked(text: str, rows: Sequence[ComparedRow]) -> str:
    """A text in which the name of a cell is a link to its row."""
    cells = {escape(row.name): row for row in rows}
    names = "|".join(re.escape(name) for name in sorted(cells, key=len, reverse=True))
    return re.sub(names, lambda match: link(cells[match[0]]), escape(text)) if names else escape(text)


def link(row: ComparedRow) -> str:
    return f'<a href="#{anchor(row)}" title="{escape(title_of(row))}">{escape(row.name)}</a>'


def exhibit_section(name: str, rows: Sequence[ComparedRow]) -> str:
    """Charts and table of a figure or table."""
    charts, learning = figures(name, rows), curves(rows)
    drawn = f'<div class="figures">{charts}</div>' if charts else ""
    folded = f'<details><summary>learning curves</summary><div class="figures">{learning}</div></details>'
    return (
        f'<h2 id="{name}">{TITLES[name]}</h2><p class="budget">{escape(exhibit_budget(name, rows))}</p>'
        f"{drawn}{rows_table(name, rows)}{equal_time_table(name, rows)}{published_table(name, rows)}"
        f"{by_segment_table(rows)}"
        f"{folded if learning else ''}"
    )


def maps_section(name: str, exhibits: Exhibits) -> str:
    """Attention maps, if there are any."""
    maps = "".join(map(drawn, FIGURES[name](exhibits)))
    section = f'<h2 id="{name}">{TITLES[name]}</h2><p class="budget">{ABOUT_MAPS}</p>'
    return f'{section}<div class="figures">{maps}</div>' if maps else ""


def cost_section(exhibits: Exhibits) -> str:
    """Device time, hardware and source of every figure."""
    lines = [f"<tr>{labelled(COST, line)}</tr>" for line in cost_lines(exhibits, TITLES)]
    return f'<h2 id="cost">Cost</h2>{table("cost", COST, lines)}<p class="budget">{SHARED}</p>'
