"""`rmt predict` and `rmt finetune` call runs, files and rows that do not fit what they are."""

import json
import os
from pathlib import Path

import pytest

from rmt.documents.corpus import Columns, load_corpus
from rmt.errors import DataError
from tests.cli.command import TRAIN, rmt


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("letter.txt").write_text("dear reader")
    Path("folder").mkdir()
    return tmp_path


def test_a_run_of_training_a_folder_and_a_missing_file_are_told_apart(capsys, workplace):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    expected = {
        "predict run letter.txt": "'run' is a run of rmt train, not of rmt finetune; use it with: rmt ev",
        "predict run folder": "file 'folder' is a folder; name a text or a table",
        "predict run missing": "file 'missing' does not exist; name a text or a table",
    }
    for command, message in expected.items():
        code, out, err = rmt(capsys, command)
        assert (code, out) == (2, "")
        assert message in err


def test_a_pipe_is_a_text(capsys, workplace):
    sender, receiver = os.pipe()
    os.write(receiver, b"dear reader")
    os.close(receiver)
    code, _, err = rmt(capsys, f"predict missing /dev/fd/{sender}")
    os.close(sender)
    assert code == 2
    assert "run 'missing' does not exist" in err  # it was read, and comes before the run


@pytest.mark.parametrize("text", ["", "text,label\n", "\n\n"], ids=["empty", "header", "blank"])
def test_a_table_without_rows_says_so(workplace, text):
    Path("rows.csv").write_text(text)
    with pytest.raises(DataError, match=r"rows\.csv has no rows: there is nothing to learn from"):
        load_corpus("rows.csv", Columns())


def test_a_row_without_a_label_is_not_a_table_without_the_column(workplace):
    Path("rows.jsonl").write_text('{"text": "good", "label": "a"}\n{"text": "bad", "label": null}\n')
    with pytest.raises(DataError, match="row 2 has nothing in column 'label'; fill or remove it"):
        load_corpus("rows.jsonl", Columns())


def test_a_row_without_a_text_is_not_labelled_as_the_word_none(capsys, workplace):
    Path("rows.jsonl").write_text('{"text": "good"}\n{"text": null}\n')
    code, out, err = rmt(capsys, "predict missing rows.jsonl")
    assert (code, out) == (2, "")
    assert "rows.jsonl: row 2 has nothing in column 'text'; fill or remove it" in err


@pytest.mark.parametrize(
    "row", [{"text": "\udcff"}, {"text": ["a", "\ud83d"]}, {"text": "a", "label": "\udcff"}]
)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_half_a_character_is_named_with_its_row(capsys, workplace, name, row):
    rows = [{"text": "good"}, row]
    Path(name).write_text(json.dumps(rows) if name == "rows.json" else "\n".join(map(json.dumps, rows)))
    code, out, err = rmt(capsys, f"predict missing {name}")
    assert (code, out) == (2, "")
    assert f"{name}: {'row' if name == 'rows.json' else 'line'} 2 has '\\ud" in err
    assert "', which is half a character; remove it" in err


def test_a_text_of_a_folder_of_classes_that_is_not_utf_8_is_named(workplace):
    Path("classes", "good").mkdir(parents=True)
    Path("classes", "good", "1.txt").write_bytes("café".encode("latin1"))
    with pytest.raises(DataError, match=r"1\.txt' is not UTF-8 at byte 3; convert it first"):
        load_corpus("classes", Columns())


def test_a_row_without_its_split_is_named(workplace):
    Path("rows.jsonl").write_text(
        '{"text": "good", "label": "a", "split": "train"}\n{"text": "bad", "label": "b"}\n'
    )
    with pytest.raises(DataError, match="row 2 has no column 'split'; fill it in all rows, or leave it out"):
        load_corpus("rows.jsonl", Columns())
