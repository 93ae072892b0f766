"""Runs that take a second: a tiny model, a tiny task, and someone who watches and may pull the plug."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from safetensors.torch import load_file
from torch import Tensor

from rmt.config import from_dict
from rmt.tasks.copy import Copy
from rmt.train.config import RunConfig
from rmt.train.loop import Loop, build_task
from rmt.train.trainer import Trainer

SCHEDULES = {
    "sequence": {"schedule": "sequence", "depth": "full"},
    "chunked": {"schedule": "chunked", "depth": 1},
    "sliding": {"schedule": "sliding", "depth": 1},
}
TINY: dict[str, Any] = {
    "task": {"name": "tests.train.runs:Echo", "segments": 5, "length": 3},
    "model": {
        "vocabulary": 12,
        "layers": 1,
        "heads": 1,
        "head_width": 4,
        "width": 8,
        "inner_width": 8,
        "memory": {"size": 2},
    },
    "train": {
        "batch": 4,
        "steps": 12,
        "evaluate_every": 4,
        "evaluate_samples": 8,
        "save_every": 3,
        "log_every": 2,
    },
    "device": "cpu",
}


@dataclass(frozen=True, kw_only=True)
class Echo(Copy):
    """Copy with splits that are small enough to run through: T = 3 · length, loss from `length` on."""

    sizes: ClassVar[dict[str, int]] = {"train": 40, "valid": 8, "test": 12}


class Watcher:
    """Keeps what a run tells; pulls the plug when it hears of step `stop`."""

    def __init__(self, stop: int | None = None):
        self.stop = stop
        self.messages: list[str] = []
        self.steps: list[int] = []
        self.tested: list[tuple[int, int]] = []

    def note(self, text: str) -> None:
        self.messages.append(text)

    def warning(self, text: str) -> None:
        self.messages.append(text)

    def logged(self, record: dict[str, Any]) -> None:
        self.steps.append(record["step"])
        if self.stop is not None and record["step"] >= self.stop:
            raise Unplugged

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def testing(self, done: int, total: int) -> None:
        self.tested.append((done, total))


class Unplugged(BaseException):
    """The end of a process, as far as one process can play it."""


def tiny(**groups: Any) -> RunConfig:
    """A tiny run with other settings where given: groups of settings, or single ones."""
    settings = dict(TINY)
    for name, value in groups.items():
        settings[name] = {**TINY.get(name, {}), **value} if isinstance(value, dict) else value
    return from_dict(RunConfig, settings)


def trainer_of(config: RunConfig) -> Trainer:
    return Trainer(config, build_task(config.task))


def run(config: RunConfig, folder: Path, stop: int | None = None) -> tuple[dict[str, Any], Watcher]:
    """The result of a run and what was heard of it; nothing but that if it was stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(config_text(config))
    watcher = Watcher(stop)
    try:
        return Loop(config, folder, watcher).run(), watcher
    except Unplugged:
        return {}, watcher


def config_text(config: RunConfig) -> str:
    from rmt.config import to_dict
    from rmt.yamlfile import write_yaml

    return write_yaml(to_dict(config))


def weights(folder: Path, step: int) -> dict[str, Tensor]:
    return load_file(folder / "checkpoints" / f"step_{step}" / "model.safetensors")


def metrics(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what a clock wrote."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    clocks = ("seconds", "tokens_per_second")
    return [{key: value for key, value in record.items() if key not in clocks} for record in records]
