"""Tables in Markdown and LaTeX: the columns of the page in its order, and no sign that LaTeX trips over."""

import re

import pytest

from rmt.experiments.claims import verdicts
from rmt.experiments.comparison import rows_of
from rmt.experiments.made_text import prepare_made_text
from rmt.experiments.tables import HEADINGS, difference, escaped, latex_report, markdown_report, text_table
from tests.experiments.report_records import gpu_records, gpu_rows


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "made"
    prepare_made_text(folder)
    return str(folder)


def test_the_numbers_stand_together_and_what_made_them_behind():
    wanted = ("model", "memory, cache", "paper", "its files", "ours", "difference", "how", "source")
    places = [HEADINGS.index(heading) for heading in wanted]
    assert places == sorted(places)


def test_a_column_of_dashes_is_left_out(text):
    assert "paper" not in text_table(gpu_rows("figure-5", text)).headings
    assert "paper" in text_table(gpu_rows("table-4", text)).headings


def test_markdown_and_latex_have_the_same_columns_and_rows(text):
    records = gpu_records("table-4", text)
    lines = markdown_report(records).splitlines()
    titles = next(line for line in lines if line.startswith("| task"))
    latex = latex_report(records)
    heading = re.findall(r"\\toprule\n(.*?) \\\\", latex)[0]
    assert titles.strip("| ").split(" | ") == heading.split(" & ")
    tabular = latex[: latex.index(r"\end{tabular}")]
    assert tabular.count("enwik8-204") == sum(line.startswith("| enwik8-204") for line in lines)


def test_rows_of_latex_have_as_many_cells_as_columns(text):
    for table in latex_report(gpu_records("figure-5", text)).split(r"\begin{table*}")[1:]:
        columns = len(re.findall(r"\\begin\{tabular\}\{(l+)\}", table)[0])
        rows = re.findall(r"^(.*) \\\\$", table, re.MULTILINE)
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {columns}
        assert table.count("{") - table.count(r"\{") == table.count("}") - table.count(r"\}")


def test_latex_has_no_sign_beyond_ascii(text):
    records = gpu_records("figure-5", text)
    assert re.findall(r"[^\x00-\x7f]", latex_report(records)) == []


@pytest.mark.parametrize(
    ("sign", "latex"), [("a_b", r"a\_b"), ("50%", r"50\%"), ("\\", r"\textbackslash{}"), ("‡", r"\ddag{}")]
)
def test_signs_of_latex_are_escaped(sign, latex):
    assert escaped(sign) == latex


def test_a_difference_that_rounds_to_none_has_no_sign():
    (row,) = (row for row in rows_of(gpu_records("table-1"))["table-1"] if row.model == "rmt")
    runs = [{**run, "metrics": {**run["metrics"], "original_accuracy": 0.99199}} for run in row.runs]
    assert difference(row._replace(record={**row.record, "runs": runs})) == "0.000"
    worse = [{**run, "metrics": {**run["metrics"], "original_accuracy": 0.9}} for run in row.runs]
    assert difference(row._replace(record={**row.record, "runs": worse})) == "−0.092"


def test_each_claim_has_its_comparisons_below_it():
    records = gpu_records("figure-8")
    text = markdown_report(records)
    claims = text[text.index("## Claims") :].splitlines()
    judged = [verdict for verdict in verdicts(rows_of(records)) if verdict.evidence]
    assert judged
    for verdict in judged:
        (place,) = (
            index for index, line in enumerate(claims) if line.startswith(f"- {verdict.claim.text} (")
        )
        assert claims[place + 1] == f"  - {verdict.evidence[0]}"
        assert escaped(str(verdict.evidence[0])) in latex_report(records)
