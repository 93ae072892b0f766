"""What a run leaves to read: lines that a resumed run does not repeat, files that are whole."""

import json
import subprocess
import time
from multiprocessing import get_context

import pytest
import torch

from rmt.store import write_json
from rmt.train import log
from rmt.train.log import SOURCE, MetricsLog, environment, process_seconds, source_hash

TICK_SECONDS = 0.02  # of the system's clock


def test_going_back_drops_the_lines_after_a_step(tmp_path):
    metrics = MetricsLog(tmp_path)
    for step in (2, 4, 4, 6):
        metrics.write({"step": step})
    metrics.rewind(4)
    metrics.write({"step": 5})
    assert [json.loads(line)["step"] for line in metrics.path.read_text().splitlines()] == [2, 4, 4, 5]


def test_a_line_cut_short_by_a_crash_counts_as_never_written(tmp_path):
    metrics = MetricsLog(tmp_path)
    metrics.write({"step": 2})
    metrics.path.write_text(metrics.path.read_text() + '{"step": 3, "lo')
    metrics.rewind(9)
    metrics.write({"step": 3})
    assert [json.loads(line)["step"] for line in metrics.path.read_text().splitlines()] == [2, 3]


def test_a_package_in_somebody_elses_repository_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.delenv("RMT_COMMIT", raising=False)
    package = tmp_path / ".venv/rmt"
    package.mkdir(parents=True)
    (package / "log.py").touch()
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "c"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(log, "SOURCE", package)
    monkeypatch.setattr(log, "__file__", str(package / "log.py"))
    assert log.commit() == "unknown"


def test_going_back_where_nothing_was_written_writes_nothing(tmp_path):
    MetricsLog(tmp_path).rewind(0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("killed", ["write_json", "rewind"])
def test_a_kill_while_a_file_is_written_leaves_the_old_one(tmp_path, monkeypatch, killed):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n')

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(log.os, "replace", kill)
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {"step": 2}) if killed == "write_json" else MetricsLog(tmp_path).rewind(0)
    assert path.read_text() == '{"step": 1}\n'


def test_the_commit_can_be_named_where_the_history_is_not_at_hand(monkeypatch):
    monkeypatch.setenv("RMT_COMMIT", "abc123")
    assert environment(torch.device("cpu"))["commit"] == "abc123"


def test_without_git_the_commit_is_unknown(monkeypatch):
    monkeypatch.delenv("RMT_COMMIT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert environment(torch.device("cpu"))["commit"] == "unknown"


def test_the_source_is_named_by_what_a_shell_computes(tmp_path):
    files = "find . -type f ! -path '*/__pycache__/*' | LC_ALL=C sort"
    command = f"{files} | xargs -d '\\n' cat | sha256sum | cut -c1-12"
    done = subprocess.run(command, shell=True, cwd=SOURCE, capture_output=True, text=True, check=True)
    assert environment(torch.device("cpu"))["source"] == source_hash() == done.stdout.strip()


def test_the_source_has_another_name_when_a_file_changes(tmp_path, monkeypatch):
    (tmp_path / "nn").mkdir()
    (tmp_path / "nn" / "layer.py").write_text("one")
    (tmp_path / "config.py").write_text("two")
    monkeypatch.setattr(log, "SOURCE", tmp_path)
    before = source_hash()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "config.pyc").write_text("compiled")
    assert source_hash() == before
    (tmp_path / "nn" / "layer.py").write_text("three")
    assert source_hash() != before


def test_the_age_of_a_process_counts_from_its_start():
    def say_age() -> None:
        time.sleep(0.3)
        sender.send(process_seconds())

    receiver, sender = get_context("fork").Pipe(duplex=False)
    process, began = get_context("fork").Process(target=say_age), time.monotonic()
    process.start()
    process.join()
    whole, seconds = time.monotonic() - began, receiver.recv()
    assert 0.3 - TICK_SECONDS < seconds <= whole + TICK_SECONDS


def test_where_the_system_does_not_say_it_the_age_of_a_process_counts_from_its_imports(monkeypatch):
    def hidden(name):
        raise OSError(name)

    whole = process_seconds()
    monkeypatch.setattr(log, "Path", hidden)
    assert 0 < process_seconds() <= whole + TICK_SECONDS


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"[1]",
        b'{"step": null}',
        b'{"step": 1' + b"0" * 400 + b"}",
        b'{"step": 1, "times_back": "x"}',
        b'{"step": 1, "times_back": []}',
    ],
    ids=lambda line: line[:40],
)
def test_a_line_that_is_no_record_counts_as_never_written(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + line + b"\n")
    metrics = MetricsLog(tmp_path)
    assert metrics.records() == [{"step": 1}]
    metrics.rewind(9)
    assert (tmp_path / "metrics.jsonl").read_bytes() == b'{"step": 1}\n'
