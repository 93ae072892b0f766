"""`rmt reproduce`: a comparison is a list of commands that exist, run side by side, never twice."""

import json
import os
from pathlib import Path

import pytest

import rmt as package
from rmt.experiments import suites
from rmt.experiments.suites import SUITES, Run
from tests.cli.command import TINY, rmt

TEXT = "It was the best of times, it was the worst of times. " * 40
ECHO = f"tests.train.runs:Echo {TINY} --threads 1"


@pytest.fixture
def comparison(monkeypatch):
    """A comparison of two runs of a second each."""
    places = (Path(package.__file__).parents[1], Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))
    runs = [Run("first", f"{ECHO} --seed 0"), Run("second", f"{ECHO} --seed 1")]
    monkeypatch.setitem(suites.SUITES, "text", lambda data, steps: iter(runs))
    return runs


@pytest.mark.parametrize("name", SUITES)
def test_every_run_of_a_comparison_is_a_command_that_can_be_given(capsys, tmp_path, name):
    Path("enwik8.txt").write_text(TEXT)
    data = "enwik8.txt" if name == "text" else ""
    runs = list(SUITES[name](data, 7))
    assert len({run.name for run in runs}) == len(runs)
    assert all(len(run.name) < 60 for run in runs)
    for run in runs[:: max(1, len(runs) // 12)]:
        arguments = run.arguments.replace("--batch 64", "--batch 2")
        answer = rmt(capsys, f"train {arguments} --print_config")
        assert answer.code == 0, answer.err
        assert "steps: 7" in answer.out


def test_a_run_that_fails_says_why_and_the_others_are_not_trained_again(capsys, comparison):
    comparison[0] = Run("first", ECHO.replace("--segments 3", "--segments 77"))
    answer = rmt(capsys, "reproduce text --workers 2 --device cpu --out runs")
    assert answer.code == 1
    assert "first  rmt: segments=77 does not fit" in answer.out
    assert "second  accuracy" in answer.out
    written = Path("runs/second/result.json").stat().st_mtime_ns
    comparison[0] = Run("first", f"{ECHO} --seed 0")
    answer = rmt(capsys, "reproduce text --workers 2 --device cpu --out runs")
    assert answer.code == 0, answer.out + answer.err
    assert "first  accuracy" in answer.out
    assert answer.out.count("(0 to go)") == 1
    assert "(2 seeds)" in answer.out.splitlines()[-1]
    assert json.loads(Path("runs/first/result.json").read_text())["seed"] == 0
    assert Path("runs/second/result.json").stat().st_mtime_ns == written
    assert "already finished" in Path("runs/second.log").read_text()


def test_no_time_is_no_result_and_nothing_left_running(capsys, comparison):
    answer = rmt(capsys, "reproduce text --seconds 0 --out runs")
    assert answer.code == 1
    assert not Path("runs/first/result.json").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("reproduce copy", "unknown comparison 'copy'; did you mean 'copies'?"),
        ("reproduce text", "data is missing"),
        ("reproduce copies --data book.txt", "data=book.txt has no effect on copies"),
        ("reproduce copies --workers 0", "workers=0 must be at least 1"),
    ],
)
def test_bad_input_is_one_line(capsys, command, message):
    answer = rmt(capsys, command)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
