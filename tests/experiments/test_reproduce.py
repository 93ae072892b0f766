"""The queue: cells side by side, each a worker's; what stopped goes on with the same call."""

import pytest

from rmt.experiments import launchers
from rmt.experiments.launchers import LocalLauncher
from rmt.experiments.reproduce import Limits, last_line, reproduce
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
