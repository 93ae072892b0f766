"""The queue: cells side by side, each a worker's; what stopped goes on with the same call."""

import time
from contextlib import ExitStack
from threading import Thread

import pytest

from rmt.experiments import launchers
from rmt.experiments.cells import write_cell
from rmt.experiments.holding import IN_USE
from rmt.experiments.launchers import LocalLauncher
from rmt.experiments.reproduce import Limits, last_line, reproduce
from rmt.experiments.worker import main
from rmt.train.folder import locked
from tests.experiments.forked import ForkedJob
from tests.experiments.tiny import echo_cell


@pytest.fixture(autouse=True)
def _forked_workers(monkeypatch):
    monkeypatch.setattr(launchers, "ProcessJob", ForkedJob)


class RecordingLauncher(LocalLauncher):
    """Keeps what it starts."""

    def __init__(self):
        super().__init__()
        self.jobs = []

    def start(self, file):
        self.jobs.append(super().start(file))
        return self.jobs[-1]


def test_a_cell_leaves_its_file_and_its_log_beside_its_folder(tmp_path):
    heard = []
    records = reproduce(
        [echo_cell("first")], tmp_path, LocalLauncher(), Limits(), lambda *ended: heard.append(ended)
    )
    ((ended, left),) = heard
    assert (ended.cell.name, left, ended.record) == ("first", 0, records[0])
    assert {path.name for path in tmp_path.iterdir()} == {"first", "first.yaml", "first.log"}
    assert ended.last_line == (tmp_path / "first.log").read_text().splitlines()[-1]


def test_a_finished_cell_starts_no_worker(tmp_path):
    reproduce([echo_cell("first")], tmp_path, LocalLauncher(), Limits(), lambda *ended: None)
    launcher = RecordingLauncher()
    records = reproduce([echo_cell("first")], tmp_path, launcher, Limits(), lambda *ended: None)
    assert (len(records), launcher.jobs) == (1, [])


def test_workers_without_a_cell_of_their_own_are_shared_out_among_the_others(tmp_path):
    cells = [
        echo_cell("one", rates=(0.001, 0.01, 0.1)),
        echo_cell("two", {"seed": 1}, rates=(0.001, 0.01, 0.1)),
        echo_cell("single", {"seed": 2}),
    ]
    started, heard = [], []

    class NamingLauncher(LocalLauncher):
        def start(self, file):
            started.append(file.stem)
            return super().start(file)

    records = reproduce(cells, tmp_path, NamingLauncher(), Limits(12), lambda *ended: heard.append(ended))
    assert started[:7] == ["one", "two", "single", "one", "two", "one", "two"]
    assert started.count("single") == 1
    assert [record["cell"]["name"] for record in records] == ["one", "two", "single"]
    assert sorted((ended.cell.name, bool(ended.record)) for ended, _ in heard) == [
        ("one", True),
        ("single", True),
        ("two", True),
    ]
    assert [left for _, left in heard] == [2, 1, 0]
    for name in ("one", "two"):
        log = (tmp_path / f"{name}.log").read_text()
        assert [log.count(f"rate-{rate}  step 4 ") for rate in (0.001, 0.01, 0.1)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"rates": (0.001, 0.1)}, 2),  # for trials; its one seed is the best of them
        ({"seeds": 1}, 1),
    ],
)
def test_no_more_workers_are_started_on_a_cell_than_it_has_runs_to_train(tmp_path, fields, most):
    launcher = RecordingLauncher()
    assert reproduce([echo_cell("first", **fields)], tmp_path, launcher, Limits(9), lambda *ended: None)
    assert len(launcher.jobs) == most


def test_more_seeds_of_a_finished_cell_start_no_more_workers_than_there_are_new_seeds(tmp_path):
    reproduce([echo_cell("first", seeds=2)], tmp_path, LocalLauncher(), Limits(), lambda *ended: None)
    launcher = RecordingLauncher()
    assert reproduce([echo_cell("first", seeds=3)], tmp_path, launcher, Limits(9), lambda *ended: None)
    assert len(launcher.jobs) == 1


def test_a_cell_without_record_says_its_last_line_and_does_not_stop_the_others(tmp_path):
    heard = []
    cells = [echo_cell("broken", {"task": {"segments": 77}}), echo_cell("second", {"seed": 1})]
    records = reproduce(cells, tmp_path, LocalLauncher(), Limits(2), lambda *ended: heard.append(ended))
    assert [record["cell"]["name"] for record in records] == ["second"]
    (broken,) = [ended for ended, _ in heard if not ended.record]
    assert broken.last_line.startswith("rmt: segments=77 does not fit")


def test_a_log_that_is_not_utf_8_has_a_last_line(tmp_path):
    (tmp_path / "first.log").write_bytes(b"begun\nne pas trouv\xe9\n")
    assert last_line(tmp_path / "first.log") == "ne pas trouv\ufffd"
    assert last_line(tmp_path / "second.log") == ""


def test_what_is_still_running_at_the_deadline_is_stopped(tmp_path):
    launcher = RecordingLauncher()
    endless = [echo_cell(name, {"train": {"steps": 10**6}}) for name in ("first", "second", "third")]
    assert reproduce(endless, tmp_path, launcher, Limits(2, 0.5), lambda *ended: None) == []
    assert [job.ended() for job in launcher.jobs] == [True, True]


def test_a_worker_that_finds_nothing_free_ends_without_a_word(tmp_path, caplog):
    file = write_cell(echo_cell("first"), tmp_path)
    (tmp_path / "first/seed-0").mkdir(parents=True)
    with locked(tmp_path / "first"), locked(tmp_path / "first/seed-0"):
        assert main([str(file)]) == IN_USE
    assert caplog.messages == []
    assert main([str(file)]) == 0


def test_free_cells_come_first_and_one_that_another_worker_has_is_waited_for(tmp_path, caplog):
    caplog.set_level("INFO", "rmt")
    (tmp_path / "first").mkdir()
    names = []
    with ExitStack() as other:
        other.enter_context(locked(tmp_path / "first"))

        def release(after: float) -> None:
            time.sleep(after)
            other.close()

        def report_ended(ended, left):
            names.append(ended.cell.name)
            Thread(target=release, args=(0.5,)).start()

        cells = [echo_cell("first"), echo_cell("second", {"seed": 1})]
        records = reproduce(cells, tmp_path, LocalLauncher(), Limits(), report_ended)
    assert (names, len(records)) == (["second", "first"], 2)
    assert caplog.messages == ["first: another worker has it, and is waited for"]


def test_what_another_command_finishes_meanwhile_starts_no_worker(tmp_path):
    cells = [echo_cell("first"), echo_cell("second", {"seed": 1})]
    (tmp_path / "first").mkdir()
    launcher, ended = RecordingLauncher(), []
    with ExitStack() as other:
        other.enter_context(locked(tmp_path / "first"))

        def report_ended(cell, left):
            ended.append(cell.cell.name)
            if left:
                other.close()
                assert main([str(write_cell(cells[0], tmp_path))]) == 0

        reproduce(cells, tmp_path, launcher, Limits(), report_ended)
    assert (ended, len(launcher.jobs)) == (["second", "first"], 1)


def test_a_worker_that_came_too_late_is_started_again_when_the_cell_is_free(tmp_path):
    names, other = [], ExitStack()

    class LateLauncher(RecordingLauncher):
        def start(self, file):
            if not self.jobs:
                (tmp_path / "first").mkdir()
                other.enter_context(locked(tmp_path / "first"))
            return super().start(file)

    def report_ended(ended, left):
        names.append(ended.cell.name)
        other.close()

    launcher = LateLauncher()
    cells = [echo_cell("first"), echo_cell("second", {"seed": 1})]
    assert len(reproduce(cells, tmp_path, launcher, Limits(), report_ended)) == 2
    assert (names, len(launcher.jobs)) == (["second", "first"], 3)


def test_a_log_keeps_what_earlier_workers_wrote(tmp_path, monkeypatch):
    monkeypatch.undo()
    (tmp_path / "first.log").write_text("of an earlier worker\n")
    job = LocalLauncher("false {}").start(tmp_path / "first.yaml")
    job.process.wait()
    assert job.ended()
    assert job.ended()
    first, second = (tmp_path / "first.log").read_text().splitlines()
    assert first == "of an earlier worker"
    assert second.startswith("rmt: the launcher's command wrote nothing and ended with exit code 1")
