"""`rmt reproduce`: the runs of a comparison side by side, never twice, each also a command of its own."""

import json
import os
import shlex
from pathlib import Path

import pytest

import rmt as package
from rmt.config import to_dict
from rmt.experiments import suites
from rmt.experiments.recipe import resolve
from rmt.experiments.suites import SUITES, Run
from rmt.yamlfile import write_yaml
from tests.cli.command import rmt
from tests.experiments.tiny import echo

TEXT = "It was the best of times, it was the worst of times. " * 40


@pytest.fixture
def comparison(monkeypatch):
    """A comparison of two runs of a second each."""
    places = (Path(package.__file__).parents[1], Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))
    runs = [Run("first", echo(seed=0)), Run("second", echo(seed=1))]
    monkeypatch.setitem(suites.SUITES, "text", lambda data, steps: iter(runs))
    return runs


@pytest.mark.parametrize("name", SUITES)
def test_a_run_is_listed_as_the_command_that_trains_with_its_settings(capsys, name):
    Path("enwik8.txt").write_text(TEXT)
    data = "enwik8.txt" if name == "text" else ""
    runs = list(SUITES[name](data, 7))
    option = f"--data {data} " if data else ""
    lines = rmt(capsys, f"reproduce {name} {option}--steps 7 --device cpu --list").out.splitlines()
    for run, line in list(zip(runs, lines, strict=True))[:: max(1, len(runs) // 12)]:
        answer = rmt(capsys, f"{line.removeprefix('rmt ')} --print_config")
        assert answer.code == 0, answer.err
        assert answer.out.endswith(write_yaml(to_dict(resolve(run.over({"device": "cpu"}).settings))))


def test_a_listed_command_can_be_pasted_into_a_shell(capsys):
    lines = rmt(capsys, "reproduce text --data it's.txt --list").out.splitlines()
    assert all("it's.txt" in shlex.split(line) for line in lines)


def test_a_run_that_fails_says_why_and_the_others_are_not_trained_again(capsys, comparison):
    comparison[0] = comparison[0].over({"task": {"segments": 77}})
    answer = rmt(capsys, "reproduce text --workers 2 --device cpu --out runs")
    assert answer.code == 1
    assert "first  rmt: segments=77 does not fit" in answer.out
    assert "second  accuracy" in answer.out
    written = Path("runs/second/result.json").stat().st_mtime_ns
    comparison[0] = comparison[0].over({"task": {"segments": 3}})
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
