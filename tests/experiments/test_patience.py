"""A worker waits for a run that another process has."""

import time
from threading import Thread

import pytest

from rmt.experiments.holding import patiently, shared
from rmt.train.folder import FolderInUse, locked


def test_a_worker_waits_for_one_that_looks(tmp_path):
    tries = []

    def action() -> None:
        tries.append(1)
        if len(tries) < 3:
            with locked(tmp_path), locked(tmp_path):
                pass

    patiently(action, seconds=60)
    assert len(tries) == 3


def test_a_worker_does_not_wait_for_a_cell(tmp_path):
    with locked(tmp_path), pytest.raises(FolderInUse, match="is being trained by another process"):
        patiently(lambda: locked(tmp_path).__enter__(), seconds=0)


def test_runs_that_another_process_trains_come_last_and_the_outcomes_in_their_order(tmp_path, caplog):
    caplog.set_level("INFO", "rmt")
    made = []

    def run(name: str) -> str:
        made.append(name)
        return name.upper()

    for name in "abc":
        (tmp_path / name).mkdir()
    lock = locked(tmp_path / "b")
    lock.__enter__()

    def release() -> None:
        while len(made) < 2:
            time.sleep(0.01)
        lock.__exit__(None, None, None)

    Thread(target=release).start()
    assert shared({tmp_path / name: lambda name=name: run(name) for name in "abc"}) == ["A", "B", "C"]
    assert made == ["a", "c", "b"]
    assert caplog.messages == ["b: another worker has it, and is waited for"]


def test_a_run_that_another_process_takes_first_is_asked_again(tmp_path):
    tries = []

    def late() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise FolderInUse("quicker")
        return "done"

    assert shared({tmp_path: late}) == ["done"]
    assert len(tries) == 2
