"""The paper's own published rows as records of cells, as if `rmt reproduce` had measured them."""

from collections.abc import Iterator
from math import sqrt
from typing import Any

from rmt.config import to_dict
from rmt.experiments.paper import PublishedRow, exhibit_rows
from rmt.experiments.suites import EXHIBITS
from rmt.experiments.suites_documents import table_3
from rmt.experiments.suites_paper import sequence_cell, text_cell
from tests.experiments.records import made_record, made_run


def paper_records(text: str) -> Iterator[dict[str, Any]]:
    """A record for each row that has a number; configurations are resolved with the text in a folder."""
    for exhibit in EXHIBITS:
        seen: set[str] = set()
        for row in exhibit_rows(exhibit):
            if values_of(row) and "paper" not in row.note.split():
                record = document_record(row) if exhibit == "table-3" else record_of(row, exhibit, text)
                if record["cell"]["name"] not in seen:  # of two settings of a cell the first, as in the suite
                    seen.add(record["cell"]["name"])
                    yield record


def values_of(row: PublishedRow) -> list[float]:
    """The runs; where only mean and deviation are published, two seeds with both; else a single number."""
    if row.values:
        return [*row.values]
    if row.measured and row.measured.deviation:
        return apart(row.measured.mean, row.measured.deviation)
    if row.printed and row.printed.deviation and (row.measured is None or row.measured.runs > 1):
        return apart(row.printed.value, row.printed.deviation)
    mean = row.measured.mean if row.measured else row.printed and row.printed.value
    return [mean] if mean else []


def apart(mean: float, deviation: float) -> list[float]:
    return [mean - deviation / sqrt(2), mean + deviation / sqrt(2)]


def record_of(row: PublishedRow, exhibit: str, text: str) -> dict[str, Any]:
    cell = sequence_cell(row, exhibit) if row.segments else text_cell(row, exhibit, "")
    record = made_record(cell, values_of(row), text)
    return {**record, "metric": "perplexity"} if row.task == "wikitext-103" else record


def document_record(row: PublishedRow) -> dict[str, Any]:
    """A row of Table 3, of which means are published without deviations."""
    cells = table_3("paper", "documents", (row.model,))
    cell = next(cell for cell in cells if cell.settings["segments"] == row.segments)
    config = {
        **cell.settings,
        "segment_length": row.segment_length,
        "depth": "full",
        "batch": 16,
        "epochs": 10.0,
    }
    runs = [made_run("seed-0", 0, value, []) for value in values_of(row)]
    return {"cell": to_dict(cell), "rate": None, "trials": [], "metric": "f1", "runs": runs, "config": config}
