"""Records of a figure or table at scale gpu for reports, each row at another value."""

from typing import Any

from rmt.experiments.comparison import ComparedRow, rows_of
from rmt.experiments.suites import Order, plan
from tests.experiments.records import made_record


def gpu_records(name: str, text: str = "", seeds: int | None = None) -> list[dict[str, Any]]:
    """A record for each cell; a text is looked up in a folder."""
    cells = plan(Order(name=name, scale="gpu", seeds=seeds)).cells
    return [
        made_record(cell, [0.5 + index / 1000 + seed / 100 for seed in range(cell.seeds)], text)
        for index, cell in enumerate(cells)
    ]


def gpu_rows(name: str, text: str = "", seeds: int | None = None) -> list[ComparedRow]:
    return rows_of(gpu_records(name, text, seeds))[name]
