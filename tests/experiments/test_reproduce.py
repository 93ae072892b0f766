"""The queue: runs side by side, each a worker's; what stopped goes on with the same call."""

import os
from pathlib import Path

import pytest

import rmt
from rmt.experiments.reproduce import reproduce, start
from rmt.experiments.suites import Run
from tests.experiments.tiny import echo


@pytest.fixture(autouse=True)
def _tasks_of_the_tests(monkeypatch):
    places = (Path(rmt.__file__).parents[1], Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))


def test_a_run_leaves_its_settings_and_its_log_beside_its_folder(tmp_path):
    heard = []
    results = reproduce([Run("first", echo())], tmp_path, 1, 60.0, lambda *ended: heard.append(ended))
    ((ended, left),) = heard
    assert (ended.run.name, left, ended.result) == ("first", 0, results[0])
    assert {path.name for path in tmp_path.iterdir()} == {"first", "first.yaml", "first.log"}
    assert ended.last_line == (tmp_path / "first.log").read_text().splitlines()[-1]


def test_a_run_without_result_says_its_last_line_and_does_not_stop_the_others(tmp_path):
    heard = []
    runs = [Run("broken", echo(task={"segments": 77})), Run("second", echo(seed=1))]
    results = reproduce(runs, tmp_path, 2, 60.0, lambda *ended: heard.append(ended))
    assert [result["seed"] for result in results] == [1]
    (broken,) = [ended for ended, _ in heard if not ended.result]
    assert broken.last_line.startswith("rmt: segments=77 does not fit")


def test_what_is_still_running_at_the_deadline_is_stopped(tmp_path, monkeypatch):
    processes = []

    def recorded(run, folder):
        processes.append(start(run, folder))
        return processes[-1]

    monkeypatch.setattr("rmt.experiments.reproduce.start", recorded)
    endless = [Run(name, echo(train={"steps": 10**6})) for name in ("first", "second", "third")]
    assert reproduce(endless, tmp_path, 2, 0.5, lambda *ended: None) == []
    assert [process.poll() is not None for process in processes] == [True, True]
