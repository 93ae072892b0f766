"""A run, a file or a stream that is not what a command needs is called what it is, and the remedy fits."""

import shutil
from pathlib import Path

import pytest

from rmt.cli.main import main
from tests.cli.command import TRAIN, rmt

TUNED = "data: a.csv\nbackbone: bert\nsegment_length: null\nsegments: 2\nmemory: 4\ndepth: full\nseed: 0\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert main(f"{TRAIN} --out {folder} --quiet".split()) == 0
    return folder


@pytest.fixture
def workplace(trained, tmp_path, monkeypatch):
    """A run of each kind, a folder of runs, a pretrained model, and files with little in them."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "many/seed-0")
    for name, file, text in (
        ("tuned", "config.yaml", TUNED),
        ("wrapped", "config.json", "{}"),
        ("empty", "other.txt", ""),
    ):
        Path(name).mkdir()
        (Path(name) / file).write_text(text)
    Path("nothing.txt").write_text("")
    Path("letter.txt").write_text("dear reader")


CASES = {
    "evaluate tuned": "'tuned' is a run of rmt finetune, not of rmt train; use it with: rmt predict tuned ",
    "generate tuned --prompt a": "use it with: rmt predict tuned FILES",
    "stream tuned letter.txt": "use it with: rmt predict tuned FILES",
    "evaluate missing": "run 'missing' does not exist; rmt runs lists those that do",
    "evaluate letter.txt": "'letter.txt' is a file, not a run; name a folder that rmt train wrote",
    "evaluate many": "'many' is a folder of runs, not a run; name one of them, such as many/seed-0",
    "evaluate wrapped": "'wrapped' is a pretrained model, not a run of rmt train",
    "evaluate empty": "'empty' is not a run: it has no config.yaml; name a folder that rmt train wrote",
    "train text --data bok": "data='bok' does not exist; name a text, a folder of them, or one of: ",
    "train text --data enwik9": "unknown corpus 'enwik9'; did you mean 'enwik8'?",
}


@pytest.mark.parametrize("command", CASES)
@pytest.mark.usefixtures("workplace")
def test_what_is_of_another_kind_is_called_what_it_is(capsys, command):
    code, out, err = rmt(capsys, command)
    assert (code, out) == (2, "")
    assert CASES[command] in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("workplace")
def test_an_empty_stream_says_so(capsys):
    code, out, err = rmt(capsys, "stream many/seed-0 nothing.txt --device cpu")
    assert (code, err) == (0, "")
    assert "the stream is empty: nothing was read; state " in out
    assert "nan" not in out
