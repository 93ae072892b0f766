"""Tables of documents as other programs write them."""

import json

import pytest

from rmt.documents.corpus import Columns, load_corpus
from rmt.documents.kinds import KINDS
from rmt.documents.tables import rows
from rmt.errors import DataError

BREAKS = "one\u2028two\u2029three\u0085four\x0bfive\x0csix\x1cseven"  # ends of lines to Unicode, not to JSON
TABLE = [{"text": f"{BREAKS} {number}", "label": ("bad", "good")[number % 2]} for number in range(30)]
BYTE_ORDER_MARK = "\ufeff"


def test_any_end_of_a_line_may_stand_in_a_string_of_json(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in TABLE), newline="")
    assert list(rows(file)) == TABLE
    assert sum(map(len, load_corpus(file, Columns()).splits.values())) == len(TABLE)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv"])
def test_a_byte_order_mark_is_no_part_of_a_table(tmp_path, suffix, end):
    between = {".csv": ",", ".tsv": "\t"}.get(suffix)
    if between:
        lines = [between.join(("text", "label")), between.join(("fine", "good"))]
    else:
        lines = [
            '[{"text": "fine", "label": "good"}]'
            if suffix == ".json"
            else '{"text": "fine", "label": "good"}'
        ]
    file = tmp_path / f"data{suffix}"
    file.write_text(BYTE_ORDER_MARK + "".join(line + end for line in lines), encoding="utf-8", newline="")
    assert list(rows(file)) == [{"text": "fine", "label": "good"}]


@pytest.mark.parametrize(
    ("suffix", "line", "message"),
    [
        (".csv", "a good film, and long,good", "row 2 has 3 cells, the header 2; put quotes .* with commas"),
        (".csv", "a good film", "row 2 has 1 cells, the header 2; put quotes .* with commas"),
        (".tsv", "a good\tfilm\tgood", "row 2 has 3 cells, the header 2; put quotes .* with tabs"),
    ],
)
def test_a_row_of_more_or_fewer_cells_than_the_header_is_named(tmp_path, suffix, line, message):
    file, between = tmp_path / f"data{suffix}", {".csv": ",", ".tsv": "\t"}[suffix]
    file.write_text("".join(f"{row}\n" for row in (f"text{between}label", "", f"fine{between}good", line)))
    with pytest.raises(DataError, match=message):
        list(rows(file))


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("text", ['"good" film', '"good film'], ids=["in-a-cell", "never-closed"])
def test_a_stray_quote_is_an_error_and_swallows_no_rows(tmp_path, suffix, text):
    file, between = tmp_path / f"data{suffix}", {".csv": ",", ".tsv": "\t"}[suffix]
    lines = (["text", "label"], [text, "good"], ["dull film", "bad"])
    file.write_text("".join(f"{between.join(line)}\n" for line in lines))
    with pytest.raises(DataError, match=rf"is not a table \(.*\); save it again as {suffix}"):
        list(rows(file))


def test_a_quote_within_a_cell_and_quoted_commas_are_part_of_a_text(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text('text,label\na 5" disk,good\n"long, and ""fine""\n",bad\n')
    assert [row["text"] for row in rows(file)] == ['a 5" disk', 'long, and "fine"\n']


def test_formats_are_known_in_capitals_too(tmp_path):
    lines = "text,label\n" + "good film,good\ndull film,bad\n" * 5
    (tmp_path / "train.CSV").write_text(lines)
    assert len(list(rows(tmp_path / "train.CSV"))) == 10
    (tmp_path / "dev.Csv").write_text(lines)
    assert len(load_corpus(tmp_path, Columns()).splits["valid"]) == 10


def test_a_row_is_named_by_its_number_in_the_file_whatever_its_split(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("text,label,split\ngood,a,train\nbad,b,train\nfine,a,test\n ,a,test\n")
    with pytest.raises(DataError, match="row 4 has an empty text"):
        load_corpus(file, Columns())


def test_too_few_documents_without_classes_are_counted_together(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("text,label\ngood,1\nbad,2\n")
    with pytest.raises(DataError, match=r"^there are 2 documents: too few to split; give the splits"):
        load_corpus(file, Columns(), KINDS["regression"])
