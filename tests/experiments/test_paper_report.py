"""Reports of cells: every number is that of its runs, the page stands alone."""

import json
import re
import statistics
from html import unescape
from pathlib import Path

import pytest

from rmt.experiments.cell_records import load_cells, written_cells
from rmt.experiments.cells import write_cell
from rmt.experiments.comparison import rows_of
from rmt.experiments.made_text import prepare_made_text
from rmt.experiments.page import page
from rmt.experiments.suites import Order, plan
from rmt.experiments.tables import latex_report, markdown_report
from rmt.experiments.worker import main
from tests.experiments.records import BITS, REACHED, made_record
from tests.experiments.tiny import echo_cell


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Scale gpu as if RMT won everywhere."""
    folder = tmp_path_factory.mktemp("text") / "made"
    prepare_made_text(folder)
    cells = plan(Order(name="all", scale="gpu")).cells
    return [made_record(cell, [reached(cell)] * cell.seeds, str(folder)) for cell in cells]


def reached(cell) -> float:
    model, task = cell.settings["preset"], cell.settings["task"]
    if task["name"] == "text":
        return BITS[model]
    return 0.999 if task["segments"] == 1 else REACHED[model]


def test_every_number_of_the_page_is_that_of_the_runs_it_names(tmp_path):
    for name, cell in {
        "first": echo_cell("first", seeds=2),
        "second": echo_cell("second", rates=(0.01, 0.1)),
    }.items():
        assert main([str(write_cell(cell, tmp_path))]) == 0, name
    text = page(load_cells([tmp_path], pytest.fail))
    numbers = re.findall(
        r'data-runs="([^"]+)">.*?<td class="ours"[^>]*><div><b>([^<]+)</b> <small>([^<]+)<', text
    )
    assert len(numbers) == 2
    for runs, shown, seeds in numbers:
        values = [
            json.loads((tmp_path / run / "result.json").read_text())["value"]
            for run in unescape(runs).split()
        ]
        assert shown.startswith(f"{statistics.mean(values):.4f}")
        assert f"({len(values)} seed" in seeds


def test_a_row_has_the_papers_printed_number_and_that_of_its_files(records):
    rows = {(row.exhibit, row.name): row for rows in rows_of(records).values() for row in rows}
    equations = rows["table-1", "quadratic-6-rmt-30"].published
    assert (str(equations.printed), equations.measured.mean) == ("0.990 ± 0.002", 0.992)
    assert rows["figure-3", "retrieval-2-rmt-4"].published.nominal == 3
    assert rows["figure-3", "copy-24-3-rmt-24-depth-0"].published is None


def test_every_row_of_table_4_is_beside_the_papers(records):
    shown = {(row.model, row.size): row.published for row in rows_of(records)["table-4"]}
    assert {key: row.measured.mean for key, row in shown.items() if row} == {
        ("baseline", 0): 1.4023,
        ("transformer_xl", 10): 1.2834,
        ("transformer_xl", 200): 1.1397,
        ("rmt", 10): 1.2276,
        ("rmt", 20): 1.2223,
    }


def test_small_models_are_not_beside_the_papers_numbers(tmp_path):
    prepare_made_text(tmp_path / "made")
    cells = plan(Order(name="all", scale="tiny")).cells
    tiny = [made_record(cell, [0.5], str(tmp_path / "made")) for cell in cells]
    assert not [row for rows in rows_of(tiny).values() for row in rows if row.published]


def test_the_page_needs_nothing_beside_itself_and_has_every_figure(records):
    text = page(records)
    assert not re.search(r'(src|href)="?http|@import|url\(|<script', text)
    for name in ("figure-3", "figure-4", "figure-5", "figure-8", "table-1", "table-4", "table-5"):
        assert f'<h2 id="{name}">' in text
    assert text.count("<svg") > 20
    assert "prefers-color-scheme: dark" in text
    assert "asks 40" in text
    assert "32 tokens" in text


def test_records_in_a_file_give_the_same_report(records, tmp_path):
    file = tmp_path / "gpu.jsonl"
    file.write_text(written_cells(records))
    assert page(load_cells([file], pytest.fail)) == page(records)


def test_latex_has_a_tabular_for_each_figure_and_no_sign_that_it_would_trip_over(records):
    text = latex_report(records)
    assert text.count(r"\begin{tabular}") == len(rows_of(records))
    assert not re.search(r"(?<!\\)[_#%]", text)
    assert "±" not in text


def test_markdown_has_the_paper_its_files_and_ours_in_one_line(records):
    (line,) = [
        line
        for line in markdown_report(records).splitlines()
        if line.startswith("| quadratic | 6 × 30 | RMT ")
    ]
    assert "| 0.990 ± 0.002 | 0.992 ± 0.011 (3 runs, 600k steps) | 0.9900 ± 0.0000 (3 seeds) |" in line


def test_results_of_the_project_are_reported_as_before():
    assert load_cells([Path(__file__).parents[2] / "results/algorithmic.jsonl"], pytest.fail) == []
