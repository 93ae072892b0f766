"""Table 3: what a worker makes of its cells, and how a report sets them beside each other and the paper."""

import json
import statistics

import pytest
import torch

from rmt.documents.hyperpartisan import PUBLISHED
from rmt.experiments.cell_records import load_cells
from rmt.experiments.cells import record_of, write_cell
from rmt.experiments.claims import verdicts
from rmt.experiments.comparison import rows_of
from rmt.experiments.estimate import estimate
from rmt.experiments.figures import figures
from rmt.experiments.labels import carried
from rmt.experiments.suites import Order, plan
from rmt.experiments.tables import fields_of, markdown_report
from rmt.experiments.worker import main
from tests.documents.test_hyperpartisan import published, write_task
from tests.documents.tiny import write_backbone

TINY = {"segment_length": 4, "epochs": 0.06, "batch": 16, "device": "cpu"}  # two updates
SPLITS = ("test", "test_published")
AVERAGES = "Memory does better than the mean of segments alone (no claim of the paper)"
IMPROVES = "Memory and more segments improve pretrained models on documents"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The cells of a tiny backbone, with two seeds and two rates each, and the folder of their runs."""
    folder = tmp_path_factory.mktemp("documents")
    (write_task(folder) / PUBLISHED).write_text(json.dumps(published()))
    torch.set_default_dtype(torch.float32)
    order = Order(name="table-3", scale="gpu", data=str(folder), backbones=(str(write_backbone(folder)),))
    cells = [cell.over(TINY).replaced(seeds=2, rates=(1e-5, 1e-3)) for cell in plan(order).cells]
    for cell in cells:
        assert main([str(write_cell(cell, folder / "runs"))]) == 0, cell.name
    return cells, folder / "runs"


@pytest.fixture(scope="module")
def rows(trained):
    return {row.name: row for row in rows_of(load_cells([trained[1]], pytest.fail))["table-3"]}


def test_a_backbone_is_compared_plain_with_the_mean_of_its_answers_and_with_memory(rows):
    shown = {name: (row.segments, carried(row)) for name, row in rows.items()}
    assert shown == {
        "hyperpartisan-bert-1": (1, "–"),
        "hyperpartisan-bert-4": (4, "memory 10"),
        "hyperpartisan-bert-4-mean": (4, "mean of answers"),
    }
    assert {fields_of(row).segments for row in rows.values()} == {"1 × 4", "4 × 4"}


def test_a_row_is_the_clean_split_and_beside_it_the_papers_own(trained, rows):
    cells, folder = trained
    for cell in cells:
        runs = [run["run"] for run in record_of(cell, folder)["runs"]]
        results = [json.loads((folder / cell.name / run / "result.json").read_text()) for run in runs]
        clean, leaking = ([result["metrics"][split]["f1"] for result in results] for split in SPLITS)
        assert len(clean) == 2
        assert rows[cell.name].mean == statistics.mean(clean)
        assert rows[cell.name].original == statistics.mean(leaking)


def test_memory_is_judged_against_one_segment_and_against_the_mean_of_as_many(rows):
    judged = {verdict.claim.text: verdict for verdict in verdicts({"table-3": [*rows.values()]})}
    pairs = {
        claim: [tuple(row.name for row in evidence.rows) for evidence in judged[claim].evidence]
        for claim in (IMPROVES, AVERAGES)
    }
    assert pairs == {
        IMPROVES: [("hyperpartisan-bert-4", "hyperpartisan-bert-1")],
        AVERAGES: [("hyperpartisan-bert-4", "hyperpartisan-bert-4-mean")],
    }


def test_a_report_says_what_it_was_measured_on_and_draws_the_mean_apart(trained, rows):
    text = markdown_report(load_cells([trained[1]], pytest.fail))
    assert "Measured on 65 articles that no model learned from." in text
    drawn = figures("table-3", [*rows.values()])
    assert "bert, mean of answers" in drawn


def test_a_plan_says_how_many_updates_the_runs_of_a_cell_make_at_most(trained):
    (first, *_), _ = trained
    planned = first.over({"epochs": 10.0}).replaced(rates=(1e-5, 5e-5, 1e-4), seeds=5)
    updates, seconds, missing = estimate(planned, "cuda")
    assert (updates, seconds) == (10 * 33 * (3 + 4), None)  # of 516 articles, 16 at a time
    assert missing == "at most, and its time depends on the pretrained model"
