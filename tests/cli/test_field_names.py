"""An error names the option that a user has set, not what it is called inside."""

from pathlib import Path

import pytest

from rmt.cli.main import main
from tests.cli import book
from tests.cli.command import TRAIN, rmt


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of a task and one of a text."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        book.write_book()
        assert main(f"{TRAIN} --out task --quiet".split()) == 0
        assert main(f"{book.TRAIN} --out text --quiet".split()) == 0
    return folder


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("evaluate {runs}/task --samples 999999", "samples=999999 of split 'test' of task"),
        ("data show copy --examples 999999999", "examples=999999999 of split 'test' of task 'copy'"),
        ("attention {runs}/task --example 99999999", "example=99999999 of split 'test' of task"),
        ("attention {runs}/task --example 12 --examples 5", "examples=5 of split 'test' of task"),
        ("evaluate {runs}/text --cache 16 --data {runs}/book.txt", "cache=16 has no effect: the rmt model"),
        ("train memory-qa", "task 'memory-qa' needs option 'data', which has no default: name --data FOLDER"),
        ("train copy --memory 99999999999", "memory=99999999999 must be 0 to 1048576"),
        ("generate {runs}/text --file empty.txt", "file='empty.txt' has no text that the model knows"),
    ],
)
def test_a_mistake_is_a_line_that_names_the_option(command, said, runs, capsys):
    Path("empty.txt").write_text("")
    code, out, err = rmt(capsys, command.format(runs=runs))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"rmt: {said}")


def test_a_kind_of_memory_is_refused_where_there_is_no_memory(capsys):
    kind = "tests.laws.layer_memory:LayerAverage"
    code, out, err = rmt(capsys, f"{TRAIN} --model baseline --memory 0 --model.memory.kind {kind}")
    said = f"model.memory.kind={kind} has no effect: the baseline model has no memory; leave it out"
    assert (code, out, err) == (2, "", f"rmt: {said}\n")


def test_names_of_what_bench_knows_come_once(capsys):
    names = rmt(capsys, "bench nope").err.partition("choose from: ")[2].strip().split(", ")
    assert "text" in names
    assert len(set(names)) == len(names)
