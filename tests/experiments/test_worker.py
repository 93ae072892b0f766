"""The worker: a file with a cell becomes runs in the folder beside it, which go on after a kill."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest

import rmt
from rmt.experiments.cells import PlannedCell, write_cell
from rmt.experiments.holding import IN_USE, is_held
from rmt.experiments.run import train
from rmt.experiments.worker import main
from rmt.stopping import Stopped
from rmt.train.divergence import Diverged
from rmt.train.folder import locked
from tests.experiments.forked import ForkedJob
from tests.experiments.tiny import echo_cell

RATES = (0.001, 0.1)
CURRICULUM = {"curriculum": {"over": "segments"}}  # so that its seeds are not trained at once


def started(file: Path) -> subprocess.Popen[str]:
    """The worker as a queue starts it."""
    places = (Path(rmt.__file__).parents[1], Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [sys.executable, "-m", "rmt.experiments.worker", str(file)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def record(folder: Path) -> dict:
    return json.loads((folder / "cell.json").read_text())


def work(folder: Path, cell: PlannedCell) -> dict:
    """The record that a worker leaves of a cell."""
    assert main([str(write_cell(cell, folder))]) == 0
    return record(folder / cell.name)


def without_time(record: dict) -> dict:
    runs = [{name: value for name, value in run.items() if name != "seconds"} for run in record["runs"]]
    return {name: record[name] for name in ("cell", "rate", "trials", "metric", "config")} | {"runs": runs}


def weights(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("model.safetensors"))
    }


def test_a_cell_is_trained_in_the_folder_beside_its_file_once(tmp_path):
    file = write_cell(echo_cell("first"), tmp_path)
    worker = started(file)
    said, _ = worker.communicate()
    assert worker.returncode == 0, said
    outcome = tmp_path / "first/cell.json"
    written = outcome.stat().st_mtime_ns
    assert "seed-0  step 4  training loss" in said
    assert f"accuracy {record(tmp_path / 'first')['runs'][0]['value']:.4f} on the test split" in said
    assert main([str(file)]) == 0
    assert outcome.stat().st_mtime_ns == written


def test_the_rate_that_is_best_on_validation_is_that_of_all_seeds_and_its_trial_is_seed_0(tmp_path):
    outcome = work(tmp_path, echo_cell("first", rates=RATES, seeds=3))
    best = max(outcome["trials"], key=lambda trial: trial["validation"])
    assert [trial["run"] for trial in outcome["trials"]] == ["rate-0.001", "rate-0.1"]
    assert outcome["config"]["optimizer"]["matrix_lr"] == outcome["rate"]
    assert [(run["run"], run["seed"]) for run in outcome["runs"]] == [
        (f"rate-{outcome['rate']:g}", 0),
        ("seed-1", 1),
        ("seed-2", 2),
    ]
    assert (
        best["validation"] == next(t for t in outcome["trials"] if t["rate"] == outcome["rate"])["validation"]
    )
    for run in outcome["runs"]:
        stored = json.loads((tmp_path / "first" / run["run"] / "result.json").read_text())
        assert (stored["value"], stored["seed"]) == (run["value"], run["seed"])
        assert stored["config"]["optimizer"]["matrix_lr"] == outcome["rate"]


def test_short_trials_are_no_runs(tmp_path):
    outcome = work(tmp_path, echo_cell("first", rates=RATES, trial_steps=2))
    assert [trial["run"] for trial in outcome["trials"]] == ["trial-0.001", "trial-0.1"]
    assert [(run["run"], run["steps"]) for run in outcome["runs"]] == [("seed-0", 4)]


def test_more_seeds_of_a_finished_cell_train_only_what_is_missing(tmp_path):
    work(tmp_path, echo_cell("first", seeds=2))
    before = weights(tmp_path)
    outcome = work(tmp_path, echo_cell("first", seeds=3))
    assert [run["seed"] for run in outcome["runs"]] == [0, 1, 2]
    after = weights(tmp_path)
    assert before.items() < after.items()


def test_more_seeds_of_a_record_without_its_runs_have_its_rate(tmp_path):
    former = work(tmp_path / "elsewhere", echo_cell("first", rates=RATES, seeds=2))
    (tmp_path / "first").mkdir()
    shutil.copy(tmp_path / "elsewhere/first/cell.json", tmp_path / "first")
    outcome = work(tmp_path, echo_cell("first", rates=RATES, seeds=4))
    assert outcome["runs"][:2] == former["runs"]
    assert [run["seed"] for run in outcome["runs"]] == [0, 1, 2, 3]
    assert (outcome["rate"], outcome["trials"]) == (former["rate"], former["trials"])
    folders = {file.name for file in (tmp_path / "first").iterdir() if file.is_dir()}
    assert folders == {"seed-2", "seed-3"}
    assert outcome["wall_seconds"] > former["wall_seconds"]
    assert outcome["stretches"][:-1] == former["stretches"]
    (place, _, before), (there, began, ended) = outcome["stretches"]
    assert place == there
    assert before <= began < ended


@pytest.mark.parametrize(
    ("stretch", "seconds"),
    [
        ({"runs": 0, "stretches": [["a", 1000.0, 2000.0]]}, 1000),
        (
            {"runs": 3, "stretches": [["a", 1000.0, 2000.0]]},
            0,
        ),  # behind a record that is gone
        ({"runs": 0, "began": ["a", 1000.0, 1000.0]}, None),  # its worker was killed
        ({"runs": 0}, None),
    ],
    ids=["stopped", "stale", "killed", "old"],
)
def test_a_record_has_the_seconds_of_the_stretches_before_it_unless_one_was_killed(
    tmp_path, stretch, seconds
):
    (tmp_path / "first").mkdir()
    (tmp_path / "first/seconds-1.json").write_text(json.dumps(stretch))
    known = work(tmp_path, echo_cell("first"))
    assert ("wall_seconds" in known) == ("stretches" in known) == (seconds is not None)
    assert seconds is None or seconds <= known["wall_seconds"] < seconds + 900
    assert not list((tmp_path / "first").glob("seconds*"))


def test_the_time_of_workers_side_by_side_is_that_of_each(tmp_path):
    (tmp_path / "first").mkdir()
    beside = tmp_path / "first/seconds-1.json"
    began = time.time() - 500
    beside.write_text(json.dumps({"runs": 0, "began": ["elsewhere", began, began]}))
    with locked(beside):  # as long as its worker lives
        known = work(tmp_path, echo_cell("first"))
    (mine, other) = known["stretches"]
    assert other[0] == "elsewhere"
    assert 500 <= other[2] - other[1] < 600
    assert known["wall_seconds"] == pytest.approx(mine[2] - mine[1] + other[2] - other[1])


def test_more_seeds_of_a_record_that_does_not_say_its_seconds_do_not_say_theirs(tmp_path):
    former = work(tmp_path, echo_cell("first"))
    del former["wall_seconds"], former["sha256"]
    (tmp_path / "first/cell.json").write_text(json.dumps(former))
    assert "wall_seconds" not in work(tmp_path, echo_cell("first", seeds=2))


def test_a_killed_worker_leaves_word_that_its_seconds_are_not_known(tmp_path):
    cell = echo_cell("first", {"train": {"steps": 500, "save_every": 2}})
    worker = ForkedJob([], write_cell(cell, tmp_path), {})
    while not (tmp_path / "first/seed-0/checkpoints/last").exists() and not worker.ended():
        time.sleep(0.01)
    worker.kill()
    (left,) = (tmp_path / "first").glob("seconds*")
    assert json.loads(left.read_text()).keys() == {"runs", "began"}


def test_a_stopped_cell_writes_down_how_long_it_took(tmp_path, monkeypatch):
    def stop(*_):
        raise Stopped(15, "a signal")

    monkeypatch.setattr("rmt.experiments.trained_runs.train", stop)
    (tmp_path / "first").mkdir()
    assert main([str(write_cell(echo_cell("first"), tmp_path))]) == 128 + 15
    (left,) = (tmp_path / "first").glob("seconds*")
    ((_, began, ended),) = json.loads(left.read_text())["stretches"]
    assert began <= ended
    assert not (tmp_path / "first/cell.json").exists()


def test_a_rate_that_diverges_loses(tmp_path, monkeypatch):
    def diverging(config, folder, observer):
        if config.optimizer.matrix_lr == 0.1:
            raise Diverged("loss=nan at step 3", 3)
        return train(config, folder, observer)

    monkeypatch.setattr("rmt.experiments.trained_runs.train", diverging)
    outcome = work(tmp_path, echo_cell("first", rates=(0.1, 0.001)))
    assert outcome["rate"] == 0.001
    assert outcome["trials"][0] == {"rate": 0.1, "run": "rate-0.1", "validation": None}


def test_a_killed_cell_goes_on_where_it_was_and_ends_the_same(tmp_path):
    budget = {"steps": 30, "save_every": 2, "evaluate_every": 15}
    cell = echo_cell("first", {"train": budget}, rates=RATES, seeds=2)
    file, folder = write_cell(cell, tmp_path), tmp_path / "first"
    worker = ForkedJob([], file, {})
    while not (folder / "rate-0.1/checkpoints/last").exists() and not worker.ended():
        time.sleep(0.01)
    worker.kill()
    assert not (folder / "cell.json").exists()
    finished = (folder / "rate-0.001/result.json").stat().st_mtime_ns
    assert main([str(file)]) == 0
    assert (folder / "rate-0.001/result.json").stat().st_mtime_ns == finished
    work(tmp_path / "whole", cell)
    assert weights(folder) == weights(tmp_path / "whole/first")


def test_two_workers_of_a_cell_train_each_run_once_and_leave_the_record_of_one(tmp_path):
    cell = echo_cell("first", CURRICULUM | {"train": {"steps": 200}}, rates=RATES, seeds=4)
    file = write_cell(cell, tmp_path)
    workers = [ForkedJob([], file, {}) for _ in range(2)]
    for worker in workers:
        worker.process.join()
    assert {worker.process.exitcode for worker in workers} in ({0, IN_USE}, {0})
    log = (tmp_path / "first.log").read_text()
    runs = ("rate-0.001", "rate-0.1", "seed-1", "seed-2", "seed-3")
    assert [log.count(f"{run}  step 200 ") for run in runs] == [1] * 5
    assert [line.startswith("finished: ") for line in log.splitlines()].count(True) == 1
    alone = work(tmp_path / "alone", cell)
    assert weights(tmp_path / "first") == weights(tmp_path / "alone/first")
    assert without_time(record(tmp_path / "first")) == without_time(alone)


def test_a_worker_beside_the_one_that_has_the_cell_trains_what_is_free_and_leaves_no_record(tmp_path):
    cell = echo_cell("first", rates=RATES)
    file, folder = write_cell(cell, tmp_path), tmp_path / "first"
    folder.mkdir()
    with locked(folder):
        assert main([str(file)]) == IN_USE
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"rate-0.001", "rate-0.1"}
    times = [(folder / run / "result.json").stat().st_mtime_ns for run in ("rate-0.001", "rate-0.1")]
    assert main([str(file)]) == 0
    assert times == [(folder / run / "result.json").stat().st_mtime_ns for run in ("rate-0.001", "rate-0.1")]
    assert record(folder)["runs"][0]["run"] in ("rate-0.001", "rate-0.1")


def test_a_trial_that_has_diverged_is_not_made_again(tmp_path, monkeypatch):
    tries = []

    def diverging(config, folder, observer):
        tries.append(config.optimizer.matrix_lr)
        if config.optimizer.matrix_lr == 0.1:
            raise Diverged("loss=nan at step 3", 3)
        return train(config, folder, observer)

    monkeypatch.setattr("rmt.experiments.trained_runs.train", diverging)
    cell = echo_cell("first", rates=(0.1, 0.001))
    before = work(tmp_path, cell)
    (tmp_path / "first/cell.json").unlink()
    assert without_time(work(tmp_path, cell)) == without_time(before)
    assert tries == [0.1, 0.001, 0.001]


def test_a_worker_that_waits_for_a_run_says_so_in_its_log(tmp_path):
    file = write_cell(echo_cell("first"), tmp_path)
    (tmp_path / "first/seed-0").mkdir(parents=True)
    other = ExitStack()
    other.enter_context(locked(tmp_path / "first/seed-0"))
    end = Timer(60, other.close)  # a worker without a word goes on then
    end.start()
    worker = started(file)
    assert worker.stdout.readline() == "seed-0: another worker has it, and is waited for\n"
    end.cancel()
    other.close()
    said, _ = worker.communicate()
    assert worker.returncode == 0, said


def test_where_the_one_that_had_the_cell_is_killed_the_other_finishes_it(tmp_path):
    cell = echo_cell("first", {"train": {"steps": 3000}}, rates=RATES)
    file, folder = write_cell(cell, tmp_path), tmp_path / "first"
    first = ForkedJob([], file, {})
    while not is_held(folder / "rate-0.001"):
        time.sleep(0.01)
    second = ForkedJob([], file, {})
    while not is_held(folder / "rate-0.1"):
        time.sleep(0.01)
    first.kill()
    second.process.join()
    assert second.process.exitcode == 0
    assert [trial["run"] for trial in record(folder)["trials"]] == ["rate-0.001", "rate-0.1"]
    assert "wall_seconds" not in record(folder)  # of the one that was killed nobody knows


def test_a_log_that_is_damaged_behind_a_finished_run_counts_without_that_line(tmp_path):
    cell = echo_cell("first", rates=RATES)
    before = work(tmp_path, cell)
    (tmp_path / "first/cell.json").unlink()
    with (tmp_path / "first/rate-0.1/metrics.jsonl").open("ab") as log:
        log.write(b'\xff{"step"\n[1]\n')
    assert work(tmp_path, cell)["trials"] == before["trials"]


def test_a_finished_run_without_its_log_is_one_line(tmp_path, caplog):
    cell = echo_cell("first", rates=RATES)
    work(tmp_path, cell)
    (tmp_path / "first/cell.json").unlink()
    (tmp_path / "first/rate-0.1/metrics.jsonl").write_bytes(b"")
    assert main([str(tmp_path / "first.yaml")]) == 2
    assert "metrics.jsonl' has no evaluation of accuracy; delete" in caplog.messages[-1]


def test_accuracy_by_segment_is_of_the_segments_with_an_answer(tmp_path):
    (run,) = work(tmp_path, echo_cell("first"))["runs"]
    assert list(run["by_segment"]) == ["1", "2"]
    assert run["curve"][-1][0] == 4


def test_other_settings_for_the_same_cell_are_refused(tmp_path, caplog):
    work(tmp_path, echo_cell("first"))
    other = write_cell(echo_cell("first", {"optimizer": {"lr": 0.5}}), tmp_path)
    assert main([str(other)]) == 2
    assert "holds a run with optimizer.lr=0.001, not 0.5" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: first\nseeds: many", "rmt: seeds='many' is not a whole number"),
        ("name: first\nsead: 1", "rmt: unknown key 'sead'; did you mean 'seeds'?"),
        ("name: first\ntrial_steps: 3", "rmt: trial_steps=3 has no effect without rates"),
        ("- 1", "must hold a mapping of settings"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_and_exit_code_two(tmp_path, caplog, text, message):
    file = tmp_path / "first.yaml"
    file.write_text(text)
    assert main([str(file)]) == 2
    assert message in caplog.messages[-1]
    assert "\n" not in caplog.messages[-1]
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize("arguments", [[], ["a.yaml", "b.yaml"], ["missing.yaml"], ["folder"]])
def test_anything_but_one_file_is_a_mistake(arguments, caplog):
    assert main(arguments) == 2
    assert len(caplog.messages) == 1
