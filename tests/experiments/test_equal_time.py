"""Language models at equal time: the quickest at its end, the others where they were then."""

import pytest

from rmt.experiments.comparison import rows_of
from rmt.experiments.equal_time import at_equal_time
from rmt.experiments.made_text import prepare_made_text
from rmt.experiments.page import page
from rmt.experiments.tables import markdown_report
from tests.experiments.report_records import gpu_records

TABLE = "table-4"


@pytest.fixture
def records(tmp_path):
    """Cells of which the first took 60 s and the others, of 3,000 updates each, 80 s."""
    prepare_made_text(tmp_path / "made")
    cells = gpu_records(TABLE, str(tmp_path / "made"))
    for record in cells[1:]:
        record["runs"][0]["seconds"] = 80.0
    return cells


def timed(records):
    """The rows of the one text."""
    [text] = at_equal_time(TABLE, rows_of(records)[TABLE])
    assert text.minutes == 1.0
    return text.rows


def test_each_stands_at_its_last_evaluation_before_the_quickest_was_done(records):
    quickest = records[0]["cell"]["name"]
    for line in timed(records):
        curve = dict(map(tuple, line.row.runs[0]["curve"]))
        assert line.step == (3000 if line.row.name == quickest else 2000)
        assert line.value == curve[line.step]


def test_what_was_not_evaluated_by_then_has_no_number(records):
    records[1]["runs"][0]["seconds"] = 600.0
    missing = [line for line in timed(records) if line.value is None]
    assert [line.row.name for line in missing] == [records[1]["cell"]["name"]]
    assert missing[0].texts[-3:] == ("–", "–", f"{records[1]['runs'][0]['value']:.4f}")


def test_times_of_two_devices_are_not_compared(records):
    records[0]["runs"][0]["device"] = "another card"
    assert list(at_equal_time(TABLE, rows_of(records)[TABLE])) == []


def test_other_tables_are_compared_at_equal_updates_only(records):
    assert list(at_equal_time("table-2", rows_of(records)[TABLE])) == []


@pytest.mark.parametrize("render", [page, markdown_report])
def test_reports_have_the_numbers(records, render):
    assert "after 1.0 minutes" in render(records)
