"""`rmt predict`: the rows of a table are read as `rmt finetune` reads them."""

import json
from types import SimpleNamespace

import pytest

from rmt.cli.predict import NamedDocument, PredictOptions, predicted, texts
from rmt.errors import DataError


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": None}, "row 1 has nothing in column 'text'; fill or remove it"),
        ({"text": " "}, "row 1 has an empty text; remove it"),
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


@pytest.mark.parametrize("question", [None, "", " "])
def test_a_question_is_needed_only_where_the_task_asks(tmp_path, monkeypatch, question):
    answering = SimpleNamespace(task=SimpleNamespace(asks=True))
    monkeypatch.setattr("rmt.documents.tuned.load_tuned", lambda *_: answering)
    (tmp_path / "new.jsonl").write_text(json.dumps({"text": "hello", "question": question}))
    file = str(tmp_path / "new.jsonl")
    options = PredictOptions(run=str(tmp_path), files=(file,))
    (document,) = texts([file], options)
    assert document == NamedDocument(f"{file}:1", "hello", question or "")
    with pytest.raises(DataError, match=r"new.jsonl:1 has no question; give a table with a column"):
        next(predicted(options, [document]))


def test_a_table_in_capitals_is_no_text(tmp_path):
    file = tmp_path / "TABLE.CSV"
    file.write_text("text\nhello\nworld\n")
    documents = texts([str(file)], PredictOptions(run="run", files=(str(file),)))
    assert [document.text for document in documents] == ["hello", "world"]
