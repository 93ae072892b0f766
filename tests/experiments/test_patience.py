"""A worker waits for a run that another process has."""

import time
from functools import partial
from threading import Thread

import pytest

from rmt.experiments.holding import CellInUse, RunPart, patiently, shared
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
    parts = [RunPart([tmp_path / name], partial(run, name)) for name in "abc"]
    assert shared(parts, waits=True) == ["A", "B", "C"]
    assert made == ["a", "c", "b"]
    assert caplog.messages == ["b: another worker has it, and is waited for"]


def test_a_worker_beside_another_trains_what_is_free_and_leaves_the_rest(tmp_path):
    made = []
    for name in "ab":
        (tmp_path / name).mkdir()
    parts = [RunPart([tmp_path / name], partial(made.append, name)) for name in "ab"]
    with locked(tmp_path / "a"), pytest.raises(CellInUse, match=r"others train a$"):
        shared(parts, waits=False)
    assert made == ["b"]


def test_runs_that_are_trained_together_are_free_only_together(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    part = RunPart([tmp_path / "a", tmp_path / "b"], lambda: pytest.fail("it was begun"))
    with locked(tmp_path / "b"), pytest.raises(CellInUse, match=r"others train a$"):
        shared([part], waits=False)


def test_a_run_that_another_process_takes_first_is_asked_again(tmp_path):
    tries = []

    def late() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise FolderInUse("quicker")
        return "done"

    assert shared([RunPart([tmp_path], late)], waits=True) == ["done"]
    assert len(tries) == 2
