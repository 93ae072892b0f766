"""Tables of documents as other programs write them."""

import json

import pytest

from rmt.documents.corpus import Columns, load_corpus, rows

BREAKS = "one\u2028two\u2029three\u0085four\x0bfive\x0csix\x1cseven"  # ends of lines to Unicode, not to JSON
TABLE = [{"text": f"{BREAKS} {number}", "label": ("bad", "good")[number % 2]} for number in range(30)]
BYTE_ORDER_MARK = "\ufeff"


def test_any_end_of_a_line_may_stand_in_a_string_of_json(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in TABLE), newline="")
    whole = TABLE if "\x0b" not in file.read_text() else [*map(json.loads, file.read_text().split("\n")[:-1])]
    assert list(rows(file)) == whole == TABLE
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
