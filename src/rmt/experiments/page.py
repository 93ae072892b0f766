"""A report as one HTML page that needs nothing beside itself: claims, figures, tables, runs, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from rmt.experiments.claims import Verdict, verdicts
from rmt.experiments.comparison import ComparedRow, Record, rows_of
from rmt.experiments.figures import curves, figures
from rmt.experiments.page_style import STYLE
from rmt.experiments.tables import HEADINGS, TITLES, Fields, cost_lines, fields_of

VERDICT_CSS = {
    "holds": "good",
    "holds with a condition": "partly",
    "does not hold": "bad",
    "not measured": "none",
}
NEAR = 0.01  # a difference below this is shown as none
HEAD = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width">'
)
ABOUT = (
    "The paper's printed numbers and those of its authors' result files beside ours: mean ± sample "
    "deviation (number of seeds), strict and free-running on the test split. A difference is by the paper's "
    "own metric, green where ours is better. Every number names its runs."
)
SEGMENTS = (
    "A segment asks as many tokens back, from its first, as it needs; a cache of c positions in segments "
    "of L reaches (layers−1)·L·⌈c/L⌉ + c."
)
COST = ("", "cells", "runs", "seconds of training", "hardware", "source")


def page(records: Sequence[Record], title: str = "Recurrent Memory Transformer, reproduced") -> str:
    """The whole page."""
    exhibits = rows_of(records)
    parts = [
        f"{HEAD}<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(ABOUT)}</p>",
        claims_section(verdicts(exhibits)),
        *(exhibit_section(name, rows) for name, rows in exhibits.items()),
        cost_section(exhibits),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def claims_section(shown: Sequence[Verdict]) -> str:
    """A line for each claim, with the rows that show it."""
    lines = []
    for verdict in shown:
        rows = "".join(f"<li>{escape(str(each))}</li>" for each in verdict.evidence)
        count = len(verdict.evidence)
        summary = f"<summary>{count} comparison{'s' * (count > 1)}</summary>"
        details = f"<details>{summary}<ul>{rows}</ul></details>" if rows else ""
        word = f'<b class="{VERDICT_CSS[verdict.word]}">{verdict.word}</b> {escape(verdict.condition)}'
        number = TITLES[verdict.claim.exhibit].partition(":")[0]
        claim = f"{escape(verdict.claim.text)} <small>({number})</small>"
        lines.append(f"<tr><td>{claim}</td><td>{word}{details}</td></tr>")
    body = "".join(lines)
    heading = "<tr><th>the paper says</th><th>here</th></tr>"
    return f'<h2>Claims</h2><div class="wide claims"><table>{heading}{body}</table></div>'


def exhibit_section(name: str, rows: Sequence[ComparedRow]) -> str:
    """Charts and table of a figure or table."""
    headings = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    body = "".join(table_row(row) for row in rows)
    return (
        f'<h2 id="{name}">{TITLES[name]}</h2><div class="figures">{figures(name, rows)}</div>'
        f'<div class="wide"><table><tr>{headings}</tr>{body}</table></div>'
        f"{by_segment_table(rows)}"
        f'<details><summary>learning curves</summary><div class="figures">{curves(rows)}</div></details>'
    )


def table_row(row: ComparedRow) -> str:
    """A cell's line; the runs behind it open below its number."""
    fields = fields_of(row)
    runs = "".join(
        f"<li>{escape(path)}: {run['value']:.4f}</li>"
        for path, run in zip(row.paths(), row.runs, strict=True)
    )
    trials = ", ".join(f"{trial['rate']:g}: {shown(trial['validation'])}" for trial in row.record["trials"])
    chosen = f"<li>validation by rate: {escape(trials)}</li>" if trials else ""
    ours = (
        f'<td class="ours" data-runs="{escape(" ".join(row.paths()))}"><details>'
        f"<summary>{escape(fields.ours)}</summary><ul>{runs}{chosen}</ul></details></td>"
    )
    cells = [f"<td>{escape(text)}</td>" for text in fields]
    cells[Fields._fields.index("files")] = f'<td class="files">{escape(fields.files)}</td>'
    cells[Fields._fields.index("ours")] = ours
    cells[Fields._fields.index("difference")] = (
        f'<td class="{difference_css(row)}">{escape(fields.difference)}</td>'
    )
    return f'<tr class="{row.model}">{"".join(cells)}</tr>'


def shown(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.4f}"


def difference_css(row: ComparedRow) -> str:
    difference = row.difference
    if difference is None or abs(difference) < max(NEAR, row.deviation):
        return ""
    return "good" if difference > 0 else "bad"


def by_segment_table(rows: Sequence[ComparedRow]) -> str:
    """Accuracy of each answering segment, how far it asks, and how far a cache reaches."""
    shown_rows = [row for row in rows if row.by_segment]
    if not shown_rows:
        return ""
    lines = []
    for row in shown_rows:
        parts = [
            f"{segment + 1}: {value:.3f}{asks(row, segment)}" for segment, value in row.by_segment.items()
        ]
        reach = "" if row.reach is None else f"{row.reach} tokens"
        lines.append(f"<tr><td>{escape(row.name)}</td><td>{reach}</td><td>{' · '.join(parts)}</td></tr>")
    return (
        f"<details><summary>accuracy by answering segment, and reach of the cache</summary><p>{SEGMENTS}</p>"
        '<div class="wide"><table><tr><th>cell</th><th>reach</th><th>segment: accuracy</th></tr>'
        f"{''.join(lines)}</table></div></details>"
    )


def asks(row: ComparedRow, segment: int) -> str:
    """How far back a segment asks, where that is known of its task."""
    return f" <small>(asks {row.asked[segment]})</small>" if segment in row.asked else ""


def cost_section(exhibits: Mapping[str, Sequence[ComparedRow]]) -> str:
    """Seconds, hardware and source of every figure."""
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in cost_lines(exhibits)
    )
    heading = "".join(f"<th>{text}</th>" for text in COST)
    return f'<h2>Cost</h2><div class="wide"><table><tr>{heading}</tr>{lines}</table></div>'
