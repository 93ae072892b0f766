"""What a run leaves to read: lines that a resumed run does not repeat, files that are whole."""

import json

import pytest
import torch

from rmt.train import log
from rmt.train.log import MetricsLog, environment, write_json


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
