"""The tables of a report's page: a line per cell on a wide screen, a card on a telephone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple, TypeVar

from rmt.experiments.budget import Budget, budget_of, counted, names
from rmt.experiments.comparison import ComparedRow, without_cell
from rmt.experiments.equal_time import ABOUT as EQUAL_TIME
from rmt.experiments.equal_time import HEADINGS as TIME_HEADINGS
from rmt.experiments.equal_time import at_equal_time
from rmt.experiments.labels import (
    DASH,
    carried,
    how,
    hues,
    model_name,
    name_at_position,
    position_name,
    published_depth,
)
from rmt.experiments.paper import Number, Published, PublishedRow
from rmt.experiments.tables import AT_EDGE, Fields, fields_of, note, number

UNCOLOURED = 0.01  # a difference below this has no colour
MOST_OPEN = 6  # rows of the paper without a cell of ours that are not folded
SEGMENTS = (
    "A segment asks as many tokens back, from its first, as it needs; a cache of c positions in segments "
    "of L reaches (layers−1)·L·⌈c/L⌉ + c."
)


class Column(NamedTuple):
    """A column of a table; one without a heading of its own in cards stands at their top."""

    css: str
    heading: str


COLUMNS = (
    Column("model", "model"),
    Column("paper", "paper"),
    Column("files", "its files (CSV)"),
    Column("ours", "ours ± std (n)"),
    Column("difference", "difference"),
    Column("how", "how"),
)
Cells = dict[str, str]  # HTML by column
AnyRow = TypeVar("AnyRow", ComparedRow, PublishedRow)


def table(css: str, headings: Iterable[str], lines: Iterable[str]) -> str:
    heading = "".join(f"<th>{escape(text)}</th>" for text in headings)
    return (
        f'<div class="wide"><table class="{css}"><thead><tr>{heading}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def rows_table(name: str, rows: Sequence[ComparedRow]) -> str:
    """The cells of a figure or table, below a line for each place; no column of dashes."""
    fields = [fields_of(row) for row in rows]
    empty = {
        column
        for column, texts in (
            ("paper", {line.printed for line in fields}),
            ("files", {line.files for line in fields}),
            ("difference", {line.difference for line in fields}),
        )
        if texts == {DASH}
    }
    columns = [column for column in COLUMNS if column.css not in empty]
    lines, colours = [], hues(row.model for row in rows)
    for where, members in by_place(rows).items():
        usual = Counter(map(budget_of, members)).most_common(1)[0][0]
        lines.append(place_line(where, str(usual), len(columns)))
        lines += (table_row(row, usual, columns, colours[row.model]) for row in members)
    below = f'<p class="budget">{AT_EDGE}</p>' if note(rows) else ""
    return table("rows", (column.heading for column in columns), lines) + below


def by_place(rows: Iterable[AnyRow]) -> dict[str, list[AnyRow]]:
    places: dict[str, list[AnyRow]] = defaultdict(list)
    for row in rows:
        places[position_name(row)].append(row)
    return places


def place_line(where: str, budget: str, width: int) -> str:
    small = f" <small>{escape(budget)}</small>" if budget else ""
    return f'<tr class="place"><th colspan="{width}">{escape(where)}{small}</th></tr>'


def anchor(row: ComparedRow) -> str:
    """Where a row stands in the page."""
    return escape(f"{row.exhibit}.{row.name}")


def table_row(row: ComparedRow, usual: Budget, columns: Sequence[Column], colour: str) -> str:
    """A cell's line; the runs behind it open below how it was trained."""
    fields = fields_of(row)
    published = row.published
    cells = {
        "model": model(model_name(row), colour, carried(row)),
        "paper": printed(published.printed if published else None),
        "files": measured(published.measured if published else None),
        "ours": ours(row, fields),
        "difference": f'<b class="{difference_css(row)}">{escape(fields.difference)}</b>',
        "how": details(row, fields, usual),
    }
    runs = escape(" ".join(row.paths()))
    return f'<tr id="{anchor(row)}" data-runs="{runs}">{line_of(cells, columns)}</tr>'


def line_of(cells: Cells, columns: Sequence[Column]) -> str:
    return "".join(
        f'<td class="{column.css}" data-label="{escape(column.heading)}"><div>{cells[column.css]}</div></td>'
        for column in columns
    )


def model(name: str, css: str, carried: str) -> str:
    """A model in its colour, and what it carries."""
    size = f" <small>{escape(carried)}</small>" if carried != DASH else ""
    return f'<span class="name {escape(css)}"><i></i>{escape(name)}</span>{size}'


def printed(number: Number | None) -> str:
    return DASH if number is None else escape(str(number))


def measured(runs: Published | None) -> str:
    """The mean of the result files, and what it is of."""
    if runs is None:
        return DASH
    mean = str(runs).partition(" (")[0]
    known = f"{counted(runs.runs, 'run')}, " if runs.runs else ""
    return f"{escape(mean)} <small>{escape(known + runs.effort)}</small>"


def ours(row: ComparedRow, fields: Fields) -> str:
    """Our mean; by the paper's metric too, where that is another number."""
    mean, _, seeds = fields.ours.partition(" (")
    original = number(row.original, row) if row.original is not None else ""
    differs = original and original != number(row.mean, row)
    loose = f" <small>{escape(original)} by the paper's metric</small>" if differs else ""
    return f"<b>{escape(mean)}</b> <small>({escape(seeds)}</small>{loose}"


def details(row: ComparedRow, fields: Fields, usual: Budget) -> str:
    """How a cell was trained; behind it its runs, trials, updates, source."""
    budget = budget_of(row)
    special = "" if budget == usual else str(budget)
    summary = ", ".join(filter(None, (how(row), special))) or "runs"
    trials = ", ".join(f"{trial['rate']:g}: {shown(trial['validation'])}" for trial in row.record["trials"])
    tried = row.edge and f" ({fields.how.partition('rate ')[2]} is the {row.edge} of those tried)"
    lines = [
        *(f"{path}: {run['value']:.4f}" for path, run in zip(row.paths(), row.runs, strict=True)),
        f"validation by rate: {trials}{tried}" if trials else "",
        str(budget),
        f"source {names(row.runs, 'source')}, {names(row.runs, 'device')}",
    ]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines if line)
    return f"<details><summary>{escape(summary)}</summary><ul>{items}</ul></details>"


def shown(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.4f}"


def difference_css(row: ComparedRow) -> str:
    difference = row.difference
    if difference is None or abs(difference) < max(UNCOLOURED, row.deviation):
        return "none"
    return "good" if difference > 0 else "bad"


def published_table(name: str, rows: Sequence[ComparedRow]) -> str:
    """The paper's rows that no cell of ours stands beside, greyed; many are folded."""
    others = without_cell(name, rows)
    if not others:
        return ""
    columns = [column for column in COLUMNS if column.css != "difference"]
    if all(row.printed is None for row in others):
        columns = [column for column in columns if column.css != "paper"]
    lines, colours = [], hues([*(row.model for row in rows), *(row.model for row in others)])
    for where, members in by_place(others).items():
        lines.append(place_line(where, "", len(columns)))
        lines += (f"<tr>{line_of(published_cells(row, colours[row.model]), columns)}</tr>" for row in members)
    summary = f"{len(others)} row{'s' * (len(others) > 1)} of the paper without a cell of ours"
    body = table("rows other", (column.heading for column in columns), lines)
    state = " open" if len(others) <= MOST_OPEN else ""
    return f"<details{state}><summary>{summary}</summary>{body}</details>"


def published_cells(row: PublishedRow, colour: str) -> Cells:
    notes = (published_depth(row), row.note)
    return {
        "model": model(model_name(row), colour, carried(row)),
        "paper": printed(row.printed),
        "files": measured(row.measured),
        "ours": DASH,
        "how": escape("; ".join(filter(None, notes))) or DASH,
    }


def equal_time_table(name: str, rows: Sequence[ComparedRow]) -> str:
    """What language models had reached when the quickest was done."""
    lines = []
    for timed in at_equal_time(name, rows):
        lines.append(place_line(timed.title, "", len(TIME_HEADINGS)))
        lines += (f"<tr>{labelled(TIME_HEADINGS, row.texts)}</tr>" for row in timed.rows)
    return f'{table("cost", TIME_HEADINGS, lines)}<p class="budget">{EQUAL_TIME}</p>' if lines else ""


def labelled(headings: Iterable[str], texts: Iterable[str]) -> str:
    """The fields of a line, each with its heading for cards."""
    return "".join(
        f'<td data-label="{heading}">{escape(text)}</td>'
        for heading, text in zip(headings, texts, strict=True)
    )


def by_segment_table(rows: Sequence[ComparedRow]) -> str:
    """Accuracy of each answering segment, how far it asks, and how far a cache reaches."""
    shown_rows = [row for row in rows if row.by_segment]
    if not shown_rows:
        return ""
    lines = []
    for where, members in by_place(shown_rows).items():
        lines.append(place_line(where, "", 3))
        lines += map(by_segment_row, members)
    return (
        f"<details><summary>accuracy by answering segment, and reach of the cache</summary>"
        f'<p class="budget">{SEGMENTS}</p>'
        f"{table('segments', ('cell', 'reach', 'segment: accuracy'), lines)}</details>"
    )


def by_segment_row(row: ComparedRow) -> str:
    parts = (
        f"<span>{segment + 1}: <b>{value:.3f}</b>{asks(row, segment)}</span>"
        for segment, value in row.by_segment.items()
    )
    reach = "" if row.reach is None else f"{row.reach} tokens"
    return (
        f'<tr><td>{escape(name_at_position(row))}</td><td data-label="reach">{reach}</td>'
        f'<td class="parts">{" ".join(parts)}</td></tr>'
    )


def asks(row: ComparedRow, segment: int) -> str:
    """How far back a segment asks, where that is known of its task."""
    return f" <small>(asks {row.asked[segment]})</small>" if segment in row.asked else ""
