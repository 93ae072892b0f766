"""Texts of one name are told apart, and what was prepared of a text serves a finished run when it is gone."""

import json
import os
import shutil
from pathlib import Path

import pytest

from rmt.cli.main import main
from rmt.errors import DataError
from rmt.seal import checksum
from rmt.text import places
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


def test_of_two_processes_with_texts_of_one_name_the_slower_takes_another_folder(monkeypatch):
    first, second = write("ta/s.txt"), write("tb/s.txt", "another one ")
    prepare = places.prepare_corpus

    def overtaken(source, *options):
        monkeypatch.setattr(places, "prepare_corpus", prepare)
        find_corpus(first)
        return prepare(source, *options)

    monkeypatch.setattr(places, "prepare_corpus", overtaken)
    assert find_corpus(second).folder == Path(f"data/s.txt-bytes-{checksum(Path(second))[:8]}")
    assert find_corpus(first).folder == Path("data/s.txt-bytes")


def test_data_prepare_tells_texts_of_one_name_apart_as_training_does(capsys):
    first, second = write("ta/s.txt"), write("tb/s.txt", "another one ")
    for options in ([], [], ["--force"]):
        assert main(["data", "prepare", first, *options]) == 0
        assert main(["data", "prepare", second, *options]) == 0
    told_apart = Path(f"data/s.txt-bytes-{checksum(Path(second))[:8]}")
    assert sorted(Path("data").iterdir()) == [Path("data/s.txt-bytes"), told_apart]
    assert (find_corpus(first).folder, find_corpus(second).folder) == (Path("data/s.txt-bytes"), told_apart)


@pytest.mark.parametrize("content", ["{", "former"])
def test_a_corpus_of_another_text_that_cannot_be_read_is_left_alone(content):
    description = find_corpus(write("ta/s.txt")).folder / "corpus.json"
    if content == "former":
        content = json.dumps({**json.loads(description.read_text()), "format": 1})
    description.write_text(content)
    second = write("tb/s.txt", "another one ")
    assert find_corpus(second).folder == Path(f"data/s.txt-bytes-{checksum(Path(second))[:8]}")
    assert description.read_text() == content


def test_a_damaged_corpus_of_the_very_text_is_an_error():
    folder = find_corpus(write("ta/s.txt")).folder
    (folder / "train.bin").write_bytes(b"")
    with pytest.raises(DataError, match="is damaged"):
        find_corpus("ta/s.txt")


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


def test_of_what_was_prepared_of_a_text_that_is_gone_the_newest_is_taken():
    find_corpus(write("ta/s.txt"))
    older, newer = (find_corpus(write("tb/s.txt", text)) for text in ("another one ", "and changed "))
    for seconds, corpus in enumerate((older, newer), start=1_000):
        os.utime(corpus.folder / "corpus.json", (seconds, seconds))
    Path("tb/s.txt").unlink()
    assert find_corpus("tb/s.txt") == newer


def test_a_text_that_is_gone_has_a_corpus_of_every_byte_and_one_of_those_that_occur():
    every, occurring = (find_corpus(write("ta/s.txt"), occurring=value) for value in (False, True))
    Path("ta/s.txt").unlink()
    assert find_corpus("ta/s.txt") == every
    assert find_corpus("ta/s.txt", occurring=True) == occurring
    shutil.rmtree(occurring.folder)
    with pytest.raises(DataError, match="does not exist"):
        find_corpus("ta/s.txt", occurring=True)


@pytest.mark.parametrize("first", [True, False], ids=["occurring-first", "every-first"])
def test_which_bytes_have_an_id_does_not_depend_on_what_was_prepared_before(first):
    text = write("ta/s.txt")
    folders = {occurring: find_corpus(text, occurring=occurring).folder for occurring in (first, not first)}
    assert folders == {False: Path("data/s.txt-bytes"), True: Path("data/s.txt-bytes-occurring")}
    vocabularies = [find_corpus(text, occurring=value).description["vocabulary"] for value in (False, True)]
    assert vocabularies == [256, len(set(Path(text).read_bytes()))]


def test_two_texts_of_one_name_have_a_folder_each_where_only_bytes_that_occur_have_an_id():
    first, second = write("ta/s.txt"), write("tb/s.txt", "another one ")
    sum_of_second = checksum(Path(second))[:8]
    for _ in range(2):
        assert find_corpus(first, occurring=True).folder == Path("data/s.txt-bytes-occurring")
        apart = find_corpus(second, occurring=True).folder
        assert apart == Path(f"data/s.txt-bytes-{sum_of_second}-occurring")


def test_characters_that_occur_are_all_that_there_are_so_they_have_the_usual_folder():
    assert find_corpus(write("ta/s.txt"), "characters", occurring=True).folder == Path(
        "data/s.txt-characters"
    )


def test_a_folder_that_is_gone_is_not_taken_for_a_file_that_was_in_it():
    find_corpus(write("lib/one.txt"))
    shutil.rmtree("lib")
    assert find_corpus("lib/one.txt").folder == Path("data/one.txt-bytes")
    with pytest.raises(DataError, match="does not exist"):
        find_corpus("lib")


def test_a_finished_run_whose_text_is_gone_says_so(capsys):
    book.write_book()
    for out in ([], ["--out", "run"]):
        assert main([*book.TRAIN.split(), *out, "--quiet"]) == 0
    Path("book.txt").unlink()
    capsys.readouterr()
    for out in ([], ["--out", "run"]):
        assert main([*book.TRAIN.split(), *out]) == 0
        assert capsys.readouterr().out.startswith("already finished: ")


def test_a_run_whose_text_is_gone_is_measured_and_looked_at_with_what_was_prepared_of_it(capsys):
    book.write_book()
    assert main([*book.TRAIN.split(), "--out", "run", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "run", "--json"]) == 0
    measured = capsys.readouterr().out
    Path("book.txt").unlink()
    for command in ("evaluate run --json", "evaluate run --json --data book.txt"):
        assert main(command.split()) == 0
        assert capsys.readouterr().out == measured
    assert main(["attention", "run", "--split", "test", "-o", "page.html"]) == 0
    shutil.rmtree("data")
    for command in ("evaluate run", "evaluate run --data book.txt", "attention run --split test"):
        capsys.readouterr()
        assert main(command.split()) == 2
        assert capsys.readouterr().err == (
            "rmt: data='book.txt' does not exist; say where the data of this run are now with --data PATH\n"
        )
