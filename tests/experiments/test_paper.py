"""Published numbers: every row of the paper by its own numbering, printed and in the files."""

from math import isclose
from statistics import mean, stdev

import pytest

from rmt.experiments.paper import (
    PUBLISHED,
    UNKNOWN,
    Number,
    Published,
    PublishedCell,
    exhibit_rows,
    paper_budget,
    published_rows,
)

MODELS = {"baseline", "memory_transformer", "transformer_xl", "rmt"}


@pytest.mark.parametrize("cell", PUBLISHED, ids=lambda cell: "-".join(map(str, cell)))
def test_a_published_number_is_a_mean_of_runs_of_known_length(cell):
    published = PUBLISHED[cell]
    assert published.runs >= 1
    assert published.runs > 1 or published.deviation == 0
    assert all(100_000 <= steps <= 1_000_000 for steps in published.budgets)
    assert UNKNOWN in published.budgets.values() or sum(published.budgets.values()) == published.runs


@pytest.mark.parametrize(
    ("exhibit", "count"),
    [
        ("figure-3", 42),
        ("figure-4", 15),
        ("figure-5", 36),
        ("figure-8", 15),
        ("table-1", 3),
        ("table-2", 17),
        ("table-3", 21),
        ("table-4", 17),
        ("table-5", 50),
    ],
)
def test_every_row_of_the_paper_is_there(exhibit, count):
    assert len(exhibit_rows(exhibit)) == count


def test_the_mean_and_the_deviation_are_those_of_the_runs():
    for row in published_rows():
        if len(row.values) > 1:
            assert len(row.values) == row.measured.runs, row
            assert isclose(mean(row.values), row.measured.mean, abs_tol=6e-4 if row.segments else 6e-3), row
            assert isclose(
                stdev(row.values), row.measured.deviation, abs_tol=1.1e-3 if row.segments else 6e-3
            )


def test_every_row_of_a_table_says_what_is_printed_or_that_it_is_in_the_files_only():
    for name in ("table-1", "table-2", "table-3", "table-5"):
        assert all(row.printed for row in exhibit_rows(name))
    assert [row.model for row in exhibit_rows("table-4") if not row.printed] == ["baseline", "baseline"]


def test_every_position_of_figure_3_with_memory_as_long_as_a_segment_has_its_models():
    measured = [row.cell for row in exhibit_rows("figure-3") if row.measured]
    positions = {(cell.task, cell.segments) for cell in measured}
    assert len(positions) == 12
    for task, segments in positions:
        models = {cell.model for cell in measured if (cell.task, cell.segments) == (task, segments)}
        assert models == (MODELS if segments > 1 else {"baseline"})


def test_retrieval_is_named_by_the_segments_that_were_cut():
    rows = [row for row in exhibit_rows("figure-3") if (row.task, row.model) == ("retrieval", "rmt")]
    assert [(row.nominal, row.segments, row.segment_length, row.memory) for row in rows] == [
        (2, 2, 5, 5),
        (3, 2, 5, 4),
        (4, 3, 4, 3),
        (5, 5, 2, 2),
    ]


def test_runs_of_different_length_are_not_said_to_be_of_one():
    mixed = {cell: published for cell, published in PUBLISHED.items() if len(published.budgets) > 1}
    assert {cell: str(published) for cell, published in mixed.items()} == {
        PublishedCell(
            "copy-24", 9, "transformer_xl", 8
        ): "0.261 ± 0.110 (5 runs, 400k or 700k or 900k steps)",
        PublishedCell("retrieval", 2, "rmt", 5): "0.990 ± 0.018 (4 runs, 1 × 700k, 3 × 1000k steps)",
        PublishedCell("reverse-120", 2, "transformer_xl", 60): "0.861 ± 0.059 (6 runs, 300k or 500k steps)",
        PublishedCell("reverse-120", 2, "rmt", 60): "0.959 ± 0.036 (3 runs, 300k or 500k steps)",
    }


def test_a_single_run_has_no_deviation():
    assert str(Published(0.496, 0.0, {1_000_000: 1}, 1)) == "0.496 (1 run, 1000k steps)"


def test_a_printed_number_keeps_its_digits():
    assert str(Number(0.99, 0.002, 3)) == "0.990 ± 0.002"
    assert str(Number(24.0, None, 1)) == "24.0"


@pytest.mark.parametrize(
    ("cell", "steps", "batch", "patience"),
    [
        (("copy-24", 3, "rmt", 24), 400_000, 32, 8),
        (("copy-24", 3, "rmt", 12), 500_000, 32, 8),
        (("reverse-24", 4, "rmt", 12), 850_000, 32, 8),
        (("reverse-24", 4, "memory_transformer", 12), 900_000, 32, 10),
        (("copy-120", 1, "baseline", 0), 600_000, 32, 8),
        (("copy-240", 6, "rmt", 60), 300_000, 256, 5),
        (("retrieval", 5, "rmt", 2), 1_000_000, 32, 10),
        (("quadratic", 6, "rmt", 30), 600_000, 32, 10),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_the_budget_of_a_published_row_is_its_own(cell, steps, batch, patience):
    budget = paper_budget(next(row for row in published_rows() if row.cell == cell))
    assert (budget["train"]["steps"], budget["train"]["batch"]) == (steps, batch)
    assert budget["rate"]["patience"] == patience
