"""`rmt data get`, `rmt data prepare` and `rmt data check`."""

import io
import zipfile
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from rmt.cli import data_files
from rmt.text import corpora
from rmt.text.corpora import Known
from tests.cli.command import TINY, rmt
from tests.tasks.stories import write_data
from tests.text.tokenizer import trained

# files in the current folder
TEXTS = {
    "book.txt": b"".join(b"line %d of a book\n" % number for number in range(200)),
    "empty.txt": b"",
    "junk.txt": b"text " * 100 + b"\0",
    "latin.txt": b"\xe9" * 100,
    "model.json": b'{"model": {}}',
    "odd.json": b'{"tokens": "bytes", "symbols": [300]}',
    "wiki/train.txt": b"a <unk>\n",
    "wiki/valid.txt": b"a b\n",
    "plain/train.txt": b"a\n",
    "plain/test.txt": b"b\n",
    "nul/train.txt": b"text\n\0",
    "cut/train.txt": b"text\n\xc3",
    "short/enwik8": b"x" * 1000,
    "short/wiki.test.tokens": b"a\n",
}

# command: what the line has to say, in this order
MISTAKES = {
    "get enwik9": ["unknown corpus 'enwik9'", "did you mean 'enwik8'?"],
    "get": ["NAME", "see rmt data get --help"],
    "get enwik8 --path no.zip": ["path='no.zip'", "not a file", "enwik8.zip"],
    "get enwik8 --path book.txt": ["book.txt", "not a whole zip archive", "get it again"],
    "prepare wikitext2": ["unknown corpus 'wikitext2'", "did you mean 'wikitext-2'?"],
    "prepare no/book.txt": ["'no/book.txt' does not exist", "name a text file"],
    "prepare enwik8": ["'data/enwik8' has no enwik8", "rmt data get enwik8", "--path"],
    "prepare enwik8 --path short": ["1,000 bytes", "100,000,000", "rmt data prepare short/enwik8"],
    "prepare wikitext-2 --path short": ["test tokens of wikitext-2", "2 instead of 245,569", "whole"],
    "prepare book.txt --path other.txt": ["path='other.txt' has no effect", "leave it out"],
    "prepare book.txt --tokens word": ["tokens='word'", "words, bytes, characters", "did you mean 'words'?"],
    "prepare book.txt --tokens words": ["book.txt", "word '181'", "no <unk>", "--tokens characters or bytes"],
    "prepare book.txt --vocabulary no": ["vocabulary 'no' does not exist", "rmt data prepare"],
    "prepare book.txt --vocabulary book.txt": ["'book.txt' is not a vocabulary", "rmt data prepare"],
    "prepare book.txt --vocabulary odd.json": ["'odd.json'", "symbols of bytes", "300", "name a folder"],
    "prepare book.txt --tokenizer no.json": ["vocabulary 'no.json' does not exist", "a tokenizer.json"],
    "prepare book.txt --tokenizer wiki": ["'wiki/vocabulary.json' does not exist", "a tokenizer.json"],
    "prepare book.txt --tokenizer latin.txt": ["'latin.txt' is not a vocabulary", "a tokenizer.json"],
    "prepare book.txt --tokenizer model.json": ["'model.json': "],
    "prepare book.txt --tokenizer a.json --tokens words": [
        "tokens=words",
        "tokenizer=a.json",
        "leave one out",
    ],
    "prepare book.txt --tokenizer a.json --vocabulary b": [
        "vocabulary=b",
        "tokenizer=a.json",
        "leave one out",
    ],
    "prepare book.txt --tokens tokenizer": ["tokens='tokenizer'", "words, bytes, characters"],
    "prepare plain --tokens words": ["plain/test.txt", "word 'b'", "no <unk>"],
    "prepare empty.txt": ["'empty.txt' is empty", "put its text there"],
    "prepare junk.txt --tokens characters": ["'junk.txt'", "NUL byte at byte 500", "--tokens bytes"],
    "prepare latin.txt --tokens characters": ["'latin.txt'", "invalid UTF-8 at byte 0", "--tokens bytes"],
    "prepare book.txt --out wiki": ["out='wiki' exists", "not a prepared corpus", "another folder"],
    "prepare book.txt --out wiki --force": ["out='wiki' exists", "not a prepared corpus"],
    "prepare book.txt --out book.txt/x": ["out='book.txt/x' cannot be written", "another folder"],
    "check wiki": ["'wiki' is not a prepared corpus", "rmt data prepare"],
    "check book.txt": ["'book.txt' is not a prepared corpus"],
}


@pytest.fixture(autouse=True)
def texts(empty_folder):
    for name, content in TEXTS.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content)


def everything():
    return sorted(map(str, Path().rglob("*")))


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(capsys, command):
    before = everything()
    code, out, err = rmt(capsys, f"data {command}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    places = [err.find(part) for part in MISTAKES[command]]
    assert -1 not in places, err
    assert places == sorted(places)
    assert everything() == before


@pytest.mark.parametrize("command", ["get", "prepare", "check"])
def test_the_help_shows_examples(capsys, command):
    code, out, err = rmt(capsys, f"data {command} --help")
    assert (code, err) == (0, "")
    assert f"usage: rmt data {command}" in out
    assert f"rmt data {command}" in out[out.index("examples:") :]


def test_a_text_is_prepared_and_checked(capsys):
    code, out, err = rmt(capsys, "data prepare book.txt")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "data/book.txt-bytes: book.txt, bytes, vocabulary 256, uint16"
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["train", "valid", "test"]
    counts = [int(line.split()[1].replace(",", "")) for line in out.splitlines()[1:]]
    assert sum(counts) == len(TEXTS["book.txt"])
    assert rmt(capsys, "data check data/book.txt-bytes") == (0, out, "")
    assert rmt(capsys, "data prepare book.txt") == (0, out, "")


def test_a_text_is_prepared_with_a_tokenizer(capsys):
    trained().save("tokenizer.json")
    code, out, err = rmt(capsys, "data prepare book.txt --tokenizer tokenizer.json")
    assert (code, err) == (0, "")
    vocabulary = trained().get_vocab_size()
    assert out.splitlines()[0] == (
        f"data/book.txt-tokenizer: book.txt, tokenizer, vocabulary {vocabulary}, uint16"
    )
    assert rmt(capsys, "data check data/book.txt-tokenizer") == (0, out, "")
    assert rmt(capsys, "data prepare book.txt --tokenizer data/book.txt-tokenizer") == (0, out, "")


def test_junk_read_with_a_tokenizer_leaves_nothing_behind(capsys):
    trained().save("tokenizer.json")
    before = everything()
    for name, found in {"nul": "NUL byte at byte 5", "cut": "invalid UTF-8 at byte 5"}.items():
        code, out, err = rmt(capsys, f"data prepare {name} --tokenizer tokenizer.json")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert found in err
    assert everything() == before


def test_unknown_words_and_missing_splits_are_said(capsys):
    out = rmt(capsys, "data prepare wiki --tokens words").out
    assert "valid             3 tokens  1 not in the vocabulary" in out
    assert "note: no test split" in out


def test_another_corpus_needs_force(capsys):
    rmt(capsys, "data prepare book.txt --out made")
    code, out, err = rmt(capsys, "data prepare latin.txt --out made")
    assert (code, out) == (2, "")
    assert err.startswith(
        "rmt: out='made' has another corpus; name another folder, or replace it with --force"
    )
    assert rmt(capsys, "data prepare latin.txt --out made --force").code == 0


def test_a_damaged_corpus_is_one_line_that_names_the_file(capsys):
    rmt(capsys, "data prepare book.txt --out made")
    Path("made/valid.bin").write_bytes(b"\0")
    code, out, err = rmt(capsys, "data check made")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'made/valid.bin' is damaged" in err


def test_no_network_is_one_line_that_says_what_to_do(capsys, monkeypatch):
    offline = Known("enwik8", "bytes", "http://127.0.0.1:9/enwik8.zip", ("enwik8",))
    monkeypatch.setitem(corpora.CORPORA, "enwik8", offline)
    before = everything()
    code, out, err = rmt(capsys, "data get enwik8")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "put enwik8.zip into 'data/enwik8' yourself and run rmt data get enwik8 again" in err
    assert everything() == before


@pytest.fixture
def _copy_of_enwik8(monkeypatch):
    """A corpus of that name, and its archive in the current folder."""
    with zipfile.ZipFile("copy.zip", "w") as archive:
        archive.writestr("enwik8", TEXTS["book.txt"])
    here = Known("enwik8", "bytes", "http://127.0.0.1:9/enwik8.zip", ("enwik8",))
    monkeypatch.setitem(corpora.CORPORA, "enwik8", here)


@pytest.mark.usefixtures("_copy_of_enwik8")
def test_a_copy_is_unpacked_and_the_next_step_told(capsys):
    code, out, err = rmt(capsys, "data get enwik8 --path copy.zip")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "next: rmt data prepare enwik8"
    assert rmt(capsys, "data prepare enwik8").code == 0


@pytest.mark.usefixtures("_copy_of_enwik8")
@pytest.mark.parametrize(("flag", "is_drawn"), [("", True), ("--quiet", False)])
def test_a_download_is_drawn_in_a_terminal_unless_it_is_to_be_quiet(capsys, monkeypatch, flag, is_drawn):
    screen = io.StringIO()
    monkeypatch.setattr(data_files, "console", lambda stderr: Console(file=screen, force_terminal=True))
    assert rmt(capsys, f"data get enwik8 --path copy.zip {flag}").code == 0
    assert ("enwik8.zip" in screen.getvalue()) == is_drawn


def test_of_a_short_text_as_many_examples_are_shown_as_there_are(capsys):
    Path("short.txt").write_text("some words of a book " * 460)
    code, out, _ = rmt(capsys, "data show text --data short.txt")
    assert code == 0
    assert 1 <= out.count("\nexample ") < 3
    code, _, err = rmt(capsys, "data show text --data short.txt --examples 3")
    assert (code, err.count("examples=3")) == (2, 1)


def test_an_option_that_the_task_declares_as_text_is_text_whatever_it_looks_like(capsys, tmp_path):
    data = write_data(tmp_path)
    (data / "books" / "Middlemarch_2.txt").rename(data / "books" / "1984.txt")
    task = "memory-qa --data data --task.options held_out=1984 --task.options buckets=30"
    assert rmt(capsys, f"data show {task} --length 64").code == 0
    train = f"train {task} {TINY.replace('--length 3', '--length 64')} --segments 4"
    code, out, err = rmt(capsys, f"{train} --print_config")
    assert (code, err) == (0, "")
    assert yaml.safe_load(out)["task"]["options"] == {"held_out": "1984", "buckets": 30}
    Path("run.yaml").write_text(out)
    assert rmt(capsys, "train --config run.yaml --print_config").out == out
    Path("run.yaml").write_text(out.replace("'1984'", "1984"))
    refused = rmt(capsys, "train --config run.yaml --print_config")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "held_out=1984 of task 'memory-qa' is not of type str" in refused.err
