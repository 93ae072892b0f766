"""`rmt predict`: the rows of a table are read as `rmt finetune` reads them."""

import json

import pytest

from rmt.cli.predict import PredictOptions, texts
from rmt.errors import DataError


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": None}, "row 1 has nothing in column 'text'; fill or remove it"),
        ({"text": " "}, "row 1 has an empty text; remove it"),
        ({"text": "hello", "question": None}, "row 1 has nothing in column 'question'"),
        ({"body": "hello"}, "row 1 has no column 'text'; name it with --text"),
    ],
)
def test_what_a_row_lacks_is_named(tmp_path, row, message):
    file = tmp_path / "new.jsonl"
    file.write_text(json.dumps(row))
    with pytest.raises(DataError, match=message):
        list(texts([str(file)], PredictOptions(run="run", files=(str(file),))))


def test_an_empty_letter_is_named(tmp_path):
    (tmp_path / "letter.txt").write_text("\n")
    with pytest.raises(DataError, match=r"letter.txt has an empty text"):
        list(texts([str(tmp_path / "letter.txt")], PredictOptions(run="run", files=("letter.txt",))))
