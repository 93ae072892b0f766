"""`rmt predict` and `rmt finetune` call runs, files and rows that do not fit what they are."""

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
