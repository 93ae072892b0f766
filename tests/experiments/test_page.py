"""The page of a report: rows that differ look different, numbers come first, nothing is cut off."""

import re
from html import unescape

import pytest

from rmt.experiments.claims import verdicts
from rmt.experiments.comparison import rows_of, without_cell
from rmt.experiments.labels import hues
from rmt.experiments.made_text import prepare_made_text
from rmt.experiments.page import MOST_LINES, page
from rmt.experiments.page_style import STYLE
from rmt.experiments.page_tables import MOST_OPEN, published_table, rows_table
from rmt.experiments.paper import exhibit_rows
from rmt.experiments.suites import Order, plan
from rmt.experiments.tables import markdown_report
from rmt.experiments.verdicts import by_evidence
from tests.experiments.paper_records import paper_records
from tests.experiments.records import made_record, with_maps
from tests.experiments.report_records import gpu_records, gpu_rows

HEADINGS = ["model", "paper", "its files (CSV)", "ours ± std (n)", "difference", "how"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "made"
    prepare_made_text(folder)
    return str(folder)


def headings(table: str) -> list[str]:
    return re.findall(r"<th>([^<]+)</th>", table)


def lines(table: str) -> list[str]:
    """The rows of a table as a reader sees them, without their details."""
    rows = re.findall(r'<tr id="[^"]+"[^>]*>(.*?)</tr>', table)
    return [re.sub(r"<ul>.*?</ul>|<[^>]+>", " ", row) for row in rows]


def without_numbers_of_ours(table: str) -> str:
    return re.sub(r'<td class="(ours|difference)".*?</td>', "", table)


@pytest.mark.parametrize("name", ["figure-3", "figure-5", "figure-8", "table-1", "table-4", "table-5"])
def test_no_two_rows_of_a_place_look_the_same(text, name):
    rows = rows_table(name, gpu_rows(name, text))
    for place in without_numbers_of_ours(rows).split('class="place"'):
        shown = lines(place)
        assert len(set(shown)) == len(shown)


def test_replay_and_memory_loss_are_in_the_rows_of_figure_5(text):
    shown = [line for line in lines(rows_table("figure-5", gpu_rows("figure-5", text))) if "+ RMT" in line]
    assert {("latest" in line, "memory loss 0.01" in line) for line in shown} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }


def test_depth_stands_only_where_memory_goes_from_segment_to_segment(text):
    for line in lines(rows_table("table-4", gpu_rows("table-4", text))):
        assert ("depth 2" in line) == ("RMT" in line)


def test_numbers_come_before_how_they_were_made_and_columns_of_dashes_are_left_out(text):
    assert headings(rows_table("table-4", gpu_rows("table-4", text))) == HEADINGS
    assert headings(rows_table("figure-3", gpu_rows("figure-3"))) == [
        heading for heading in HEADINGS if heading != "paper"
    ]
    assert headings(rows_table("figure-5", gpu_rows("figure-5", text))) == ["model", "ours ± std (n)", "how"]


def test_places_are_in_the_papers_order():
    places = re.findall(r'class="place"><th[^>]*>(\S+) in (\d)', rows_table("figure-3", gpu_rows("figure-3")))
    assert list(dict.fromkeys(task for task, _ in places)) == ["copy-24", "reverse-24", "retrieval"]
    assert [int(count) for task, count in places if task == "copy-24"] == [1, 3, 6, 9]


def test_every_cell_names_its_column_for_the_cards_of_a_narrow_screen():
    table = rows_table("figure-3", gpu_rows("figure-3"))
    assert len(re.findall(r"<td(?![^>]*data-label)", table)) == 0
    narrow = STYLE.partition("@media (max-width: 960px)")[2]
    assert "content: attr(data-label)" in narrow
    assert "thead { display: none; }" in narrow


def test_rate_at_the_edge_of_those_tried_is_marked():
    at_edge, inside = (gpu_records("table-1") for _ in range(2))
    for record in inside:
        record["rate"] = 0.005
    table = rows_table("table-1", rows_of(at_edge)["table-1"])
    assert "rate 0.01‡" in table
    assert "is the largest of those tried" in table
    assert "‡" not in rows_table("table-1", rows_of(inside)["table-1"])


def test_rows_of_the_paper_without_a_cell_of_ours_are_listed_below_and_many_are_folded(text):
    rows = gpu_rows("table-4", text)
    others = published_table("table-4", rows)
    count = len(without_cell("table-4", rows))
    assert count == len(exhibit_rows("table-4")) - sum(row.published is not None for row in rows) > MOST_OPEN
    assert others.startswith(f"<details><summary>{count} rows of the paper without a cell of ours")
    assert all(number in others for number in ("1.261", "1.230 ± 0.001", "1.071"))
    assert published_table("table-4", [*rows][:0]).count("<tr>") > others.count("<tr>")


def test_every_comparison_of_a_claim_links_to_rows_that_are_there(text):
    whole = page([*gpu_records("figure-3"), *gpu_records("table-5", text)])
    targets = set(re.findall(r'href="#([^"]+)"', whole))
    assert len(targets) > 50
    assert targets <= set(re.findall(r'id="([^"]+)"', whole))


def test_of_many_comparisons_of_a_claim_most_are_folded(text):
    whole = page(gpu_records("table-5", text))
    (claim,) = re.findall(r"Language models with recurrence.*?</tr>", whole)
    shown = claim.partition(" more</summary>")[0]
    assert shown.count("<li>") == MOST_LINES < claim.count("<li>")


def test_the_top_says_budget_hardware_and_source_beside_the_papers():
    whole = page(gpu_records("table-1"))
    summary = unescape(re.findall(r'<p class="summary">(.*?)</p>', whole)[0])
    assert re.match(
        r"\d cells with \d+ runs and \d+ further trials of learning rates: 3,000 updates of", summary
    )
    assert "the paper: 600,000 updates of 32" in summary
    assert summary.endswith("on a card; source 0123456789ab.")


def test_the_papers_own_rows_make_a_whole_page_with_documents_too(text):
    whole = page([*paper_records(text)])
    assert '<h2 id="table-3">' in whole
    assert whole.count("<table") == whole.count("</table>")
    assert " 0 runs" not in whole
    assert 'class="hue-' in whole.partition('<h2 id="table-3">')[2]


def test_the_contents_name_every_section_in_its_order():
    orders = (("figure-3", "gpu"), ("figure-8", "gpu"), ("figure-3", "tiny"))
    cells = [cell for name, scale in orders for cell in plan(Order(name=name, scale=scale)).cells]
    whole = page([with_maps(made_record(cell, [0.5] * cell.seeds)) for cell in cells])
    links = re.findall(r'<a href="#([^"]+)">', whole.partition("<nav>")[2].partition("</nav>")[0])
    assert links == re.findall(r'<h2 id="([^"]+)"', whole)
    assert {"orders", "figure-6", "figure-9"} <= {*links}


def test_models_that_the_paper_does_not_have_are_told_apart_by_colour():
    colours = hues(["rmt", "gte", "bert", "gte"])
    assert (colours["rmt"], len({colours["rmt"], colours["gte"], colours["bert"]})) == ("rmt", 3)


def test_claims_without_evidence_are_folded_and_in_text_one_line():
    records = gpu_records("figure-8")
    judged, others = by_evidence(verdicts(rows_of(records)))
    assert judged
    assert others
    folded = page(records).partition('<h2 id="claims">')[2].partition("<h2")[0].rpartition("<details>")[2]
    assert f"<summary>{len(others)} claims not measured</summary>" in folded
    assert folded.count("<li>") == len(others)
    lines = [line for line in markdown_report(records).splitlines() if line.startswith("- ")]
    (last,) = [line for line in lines if line.startswith("- **not measured**: ")]
    assert all(verdict.claim.text in last for verdict in others)
    assert not any(verdict.claim.text in last for verdict in judged)
