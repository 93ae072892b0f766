"""Runs of other processes are heard of by their logs."""

import json

from rmt.experiments.follow import FollowedLog, following
from rmt.train.log import MetricsLog
from tests.train.runs import Watcher


class Listener(Watcher):
    """Keeps what it hears, in order."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def logged(self, record):
        self.heard.append(("logged", record))

    def evaluated(self, record):
        self.heard.append(("evaluated", record))


def test_what_is_logged_while_a_run_is_followed_is_heard_once_and_in_order(tmp_path):
    log, listener = MetricsLog(tmp_path), Listener()
    log.write({"step": 1, "loss": 3.0})
    with following({tmp_path: listener}):
        log.write({"step": 2, "loss": 2.0})
        log.write({"step": 2, "split": "valid", "loss": 1.0})
    assert listener.heard == [
        ("logged", {"step": 2, "loss": 2.0}),
        ("evaluated", {"step": 2, "split": "valid", "loss": 1.0}),
    ]


def test_half_a_line_waits_for_its_other_half(tmp_path):
    listener = Listener()
    log, line = FollowedLog(tmp_path, listener), json.dumps({"step": 1, "loss": 3.0}) + "\n"
    path = tmp_path / "metrics.jsonl"
    path.write_text(line[:9])
    log.pass_on()
    assert listener.heard == []
    path.write_text(line)
    log.pass_on()
    log.pass_on()
    assert listener.heard == [("logged", {"step": 1, "loss": 3.0})]
