"""What figures cost: all of a cell's time, or at least that of its trainings."""

import pytest

from rmt.experiments.budget import Budget, cost_lines, device_time, duration, exhibit_budget, ranged, time_of
from rmt.experiments.comparison import rows_of
from rmt.experiments.tables import TITLES
from tests.experiments.report_records import gpu_records


def stacked(seconds: list[float]) -> dict:
    return {"runs": [{"seconds": value} for value in seconds]}


def test_the_cost_of_a_cell_is_all_its_time_on_the_device():
    record = {**stacked([60.0, 60.0]), "wall_seconds": 300.0}
    assert str(device_time([record, record])) == "10 min"


def test_without_that_it_is_at_least_its_trainings_a_stack_once():
    assert time_of(stacked([40.0, 90.5, 90.5, 90.5])).seconds == 130.5
    assert str(device_time([stacked([600.0])])) == "≥ 10 min (trainings only)"


def at_work(*stretches: tuple[str, float, float]) -> dict:
    seconds = sum(ended - began for _, began, ended in stretches)
    return {**stacked([60.0]), "wall_seconds": seconds, "stretches": [list(stretch) for stretch in stretches]}


def test_a_device_that_cells_share_is_counted_once():
    records = [
        at_work(("a", 1000.0, 1600.0)),
        at_work(("a", 1300.0, 1900.0), ("a", 4000.0, 4300.0)),  # stopped, and later gone on with
        at_work(("a", 1100.0, 1200.0)),
    ]
    assert device_time(records).occupied == 900 + 300
    assert str(device_time(records)) == "20 min (27 min of cells, several at a time)"


def test_two_devices_are_counted_both():
    records = [at_work(("a", 1000.0, 1600.0)), at_work(("b", 1000.0, 1600.0))]
    assert str(device_time(records)) == "20 min"


@pytest.mark.parametrize("told", [None, 3, [["a", 2.0, 1.0]], [["a", 1.0]], [[1, 2, 3]], [["a", "1", 2.0]]])
def test_where_a_record_does_not_tell_its_stretches_cells_are_added_up(told):
    records = [at_work(("a", 1000.0, 1600.0)), {**at_work(("a", 1000.0, 1600.0)), "stretches": told}]
    assert device_time(records) == (1200.0, True, None)
    assert str(device_time(records)) == "20 min"


def test_a_sum_with_one_old_record_is_a_least():
    assert not device_time([{**stacked([60.0]), "wall_seconds": 300.0}, stacked([60.0])]).is_whole


def test_cells_of_two_figures_are_counted_once_in_all():
    records = gpu_records("figure-8")
    for record in records[:2]:
        record["cell"]["exhibits"] = ["figure-3", "figure-8"]
    *_, total = cost_lines(rows_of(records), TITLES)
    runs = sum(len(record["runs"]) for record in records)
    assert total[:3] == ("all, each cell once", str(len(records)), str(runs))


def test_a_figure_says_its_device_and_its_budget_beside_the_papers():
    records = [{**record, "wall_seconds": 90.0} for record in gpu_records("table-1")]
    sentence = exhibit_budget("table-1", rows_of(records)["table-1"])
    assert sentence.endswith("; the paper: 600,000 updates of 32. Device time 6 min, on a card.")


@pytest.mark.parametrize(
    ("seconds", "text"), [(35, "35 s"), (600, "10 min"), (7140, "119 min"), (8100, "2 h 15 min")]
)
def test_durations_are_in_the_unit_that_fits(seconds, text):
    assert duration(seconds) == text


def test_a_text_is_trained_in_lanes():
    assert str(Budget(2000, 64, "lane", "modern-2")) == "2,000 updates of 64 lanes, recipe modern-2"


def test_documents_are_passed_over_until_it_gets_no_better():
    budget = Budget(0, 16, "document", "finetune", 10.0)
    assert str(budget) == "at most 10 passes in updates of 16 documents, recipe finetune"


def test_many_budgets_are_a_range_and_passes_stay_passes():
    many = [Budget(count, 32, "sequence", "modern-2") for count in (1000, 3000, 20000)]
    documents = Budget(0, 16, "document", "finetune", 10.0)
    assert ranged([*many, documents]) == f"1,000 to 20,000 updates of 32; {documents}"
    assert ranged([documents]) == str(documents)
