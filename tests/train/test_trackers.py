"""Runs that are handed on to tensorboard, wandb or trackio as well."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rmt.errors import ConfigError
from rmt.train.trackers import OnlineTracker, TensorboardTracker, TrackedObserver, tracked
from tests.cli.command import TRAIN, rmt
from tests.train.runs import Watcher

RECORDS = [{"step": 2, "loss": 1.5, "rate": 0.1}, {"step": 4, "split": "valid", "accuracy": 0.25}]


class FakeService:
    """What wandb and trackio have in common."""

    def __init__(self):
        self.calls = []

    def init(self, **options):
        self.calls.append(options)
        return self

    def log(self, numbers, step):
        self.calls.append((step, numbers))

    def finish(self):
        self.calls.append("finish")


def scalars(folder):
    """The events of a folder, as tensorboard's own reader gives them: name to steps and values."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    names = events.Tags()["scalars"]
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in names}


def test_every_number_of_a_run_is_handed_on_and_the_observer_still_watches():
    service, watcher = FakeService(), Watcher()
    tracker = OnlineTracker(Path("runs/run"), {"seed": 3}, service)
    observer = TrackedObserver(watcher, tracker)
    observer.note("resuming")
    observer.logged(RECORDS[0])
    observer.evaluated(RECORDS[1])
    observer.tested({"split": "test", "steps": 4, "metrics": {"accuracy": 0.5, "name": "text"}})
    observer.tested({"split": "test", "steps": 4, "metrics": {"test": {"f1": 0.5}, "valid": {"f1": 0.75}}})
    tracker.close()
    assert service.calls == [
        {"project": "rmt", "name": "runs/run", "config": {"seed": 3}},
        (2, {"train/loss": 1.5, "train/rate": 0.1}),
        (4, {"valid/accuracy": 0.25}),
        (4, {"test/accuracy": 0.5}),
        (4, {"test/f1": 0.5}),
        (4, {"valid/f1": 0.75}),
        "finish",
    ]
    assert (watcher.messages, watcher.steps) == (["resuming"], [2])


def test_a_run_without_a_tracker_is_watched_as_before():
    watcher = Watcher()
    with tracked(watcher, None, Path("run"), {}) as observer:
        assert observer is watcher


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_a_missing_package_is_one_line_before_anything_is_written(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, name, None)
    code, out, err = rmt(capsys, f"{TRAIN} --out run --log {name}")
    assert (code, out) == (2, "")
    assert err == f"rmt: log={name} needs the package {name}; install it with: pip install {name}\n"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="install it with"), tracked(Watcher(), name, tmp_path, {}):
        pass


def test_tensorboard_reads_back_what_a_run_has_logged(capsys, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    assert rmt(capsys, f"{TRAIN} --out run --log tensorboard --quiet").code == 0
    events = scalars(tmp_path / "run" / "tensorboard")
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    losses = [
        (record["step"], record["loss"]) for record in records if "loss" in record and "split" not in record
    ]
    measured = [(record["step"], record["accuracy"]) for record in records if "split" in record]
    assert events["train/loss"] == [(step, pytest.approx(loss)) for step, loss in losses]
    assert events["valid/accuracy"] == [(step, pytest.approx(value)) for step, value in measured]
    result = json.loads(Path("run/result.json").read_text())
    assert events["test/accuracy"] == [(4, pytest.approx(result["value"]))]


def test_a_service_that_takes_no_run_is_one_line_with_its_reason():
    def refuse(**options):
        raise RuntimeError("api_key not configured\n(no-tty)")

    service = SimpleNamespace(__name__="wandb", init=refuse)
    with pytest.raises(ConfigError) as error:
        OnlineTracker(Path("runs/run"), {}, service).log({"loss": 1.0}, 2)
    assert str(error.value) == (
        "log=wandb cannot begin a run (api_key not configured (no-tty)); log in, set WANDB_MODE=offline, or "
        "leave --log out: the same command goes on"
    )


def test_what_an_interrupted_run_logged_and_logs_again_is_there_once(tmp_path):
    pytest.importorskip("tensorboard")
    for losses in ({2: 0.5, 4: 0.25, 6: 0.125}, {4: 0.75, 6: 1.0}):
        tracker = TensorboardTracker(tmp_path, {"seed": 0})
        for step, loss in losses.items():
            tracker.log({"train/loss": loss}, step)
        tracker.close()
    assert scalars(tmp_path / "tensorboard") == {"train/loss": [(2, 0.5), (4, 0.75), (6, 1.0)]}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [("wandb", ""), ("wandb", "--seeds 2"), ("trackio", "")])
def test_the_real_packages_take_a_run_without_a_network(name, options, tmp_path):
    pytest.importorskip(name)
    source = Path(__file__).parents[2]
    paths = os.pathsep.join([str(source / "src"), str(source), os.environ.get("PYTHONPATH", "")])
    variables = {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "TRACKIO_DIR": str(tmp_path / "trackio"),
    }
    command = [
        sys.executable,
        "-m",
        "rmt",
        *TRAIN.split(),
        *f"--out run --quiet --log {name} {options}".split(),
    ]
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    written = {"wandb": "run/**/*.wandb", "trackio": "trackio/**/*.db"}[name]
    assert len(list(tmp_path.glob(written))) == (2 if "seeds" in options else 1)
