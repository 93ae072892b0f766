"""Texts of one name are told apart, and what was prepared of a text serves a finished run when it is gone."""

from pathlib import Path

import pytest

from rmt.cli.main import main
from rmt.errors import DataError
from rmt.seal import checksum
from rmt.text.task import OtherText, find_corpus
from tests.cli import book


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, text="so it goes on and on, "):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text * 20)
    return path


def test_two_texts_of_one_name_have_a_folder_each():
    first, second = write("ta/s.txt"), write("tb/s.txt", "another one ")
    assert find_corpus(first).folder == Path("data/s.txt-bytes")
    told_apart = Path(f"data/s.txt-bytes-{checksum(Path(second))[:8]}")
    for _ in range(2):
        assert find_corpus(second).folder == told_apart
        assert find_corpus(first).folder == Path("data/s.txt-bytes")


def test_folders_of_texts_are_told_apart_by_all_their_files():
    for folder, word in (("ta/texts", "one "), ("tb/texts", "two "), ("tc/texts", "three ")):
        for name in ("a.txt", "b.txt"):
            write(f"{folder}/{name}", word)
    folders = {find_corpus(name).folder for name in ("ta/texts", "tb/texts", "tc/texts")}
    assert len(folders) == 3


def test_a_text_that_has_moved_keeps_its_folder_and_one_that_has_changed_is_refused():
    find_corpus(write("ta/s.txt"))
    moved = Path("tb/s.txt")
    moved.parent.mkdir()
    Path("ta/s.txt").rename(moved)
    assert find_corpus("tb/s.txt").folder == Path("data/s.txt-bytes")
    write("ta/s.txt", "changed ")
    with pytest.raises(OtherText, match=r"'data/s.txt-bytes' has another corpus than 'ta/s.txt' now is"):
        find_corpus("ta/s.txt")


def test_what_was_prepared_of_a_text_is_there_when_the_text_is_gone(caplog):
    prepared = find_corpus(write("ta/s.txt"))
    Path("ta/s.txt").unlink()
    with caplog.at_level("INFO"):
        assert find_corpus("ta/s.txt") == prepared
    assert "ta/s.txt is not there any more" in caplog.text
    for other in ("tb/s.txt", "s.txt"):
        with pytest.raises(DataError, match="does not exist"):
            find_corpus(other)
    with pytest.raises(DataError, match="does not exist"):
        find_corpus("ta/s.txt", "characters")


def test_a_finished_run_whose_text_is_gone_says_so(capsys):
    book.write_book()
    for out in ([], ["--out", "run"]):
        assert main([*book.TRAIN.split(), *out, "--quiet"]) == 0
    Path("book.txt").unlink()
    capsys.readouterr()
    for out in ([], ["--out", "run"]):
        assert main([*book.TRAIN.split(), *out]) == 0
        assert capsys.readouterr().out.startswith("already finished: ")
