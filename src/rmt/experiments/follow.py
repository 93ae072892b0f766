"""Runs of other processes, watched by what they log: an observer hears of each as if it were trained here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from rmt.train.loop import Observer

POLL_SECONDS = 0.5  # between looks at the logs


class FollowedLog:
    """The metrics.jsonl of a run that another process writes."""

    def __init__(self, run: Path, observer: Observer):
        self.path, self.observer = run / "metrics.jsonl", observer
        self.lines = len(self.written())  # of before: an observer has heard of them

    def written(self) -> list[str]:
        """The whole lines there are."""
        text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""
        return text.split("\n")[:-1]

    def pass_on(self) -> None:
        """Let the observer hear of new lines."""
        lines = self.written()
        for record in map(json.loads, lines[self.lines :]):
            if "split" in record:
                self.observer.evaluated(record)
            elif "loss" in record:
                self.observer.logged(record)
        self.lines = len(lines)


@contextmanager
def following(observers: Mapping[Path, Observer]) -> Iterator[None]:
    """While this is open, each observer hears what is logged in its run folder."""
    logs = [FollowedLog(run, observer) for run, observer in observers.items()]
    over = Event()

    def follow() -> None:
        while not over.wait(POLL_SECONDS):
            for log in logs:
                log.pass_on()

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for log in logs:
            log.pass_on()
