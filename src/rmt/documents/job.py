"""A fine-tuning run before it begins: what is trained on what, where, and in how many steps."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from rmt.documents.classifier import Classifier
from rmt.documents.config import FinetuneConfig
from rmt.train.checkpoint import Checkpoints
from rmt.train.log import MetricsLog

Rows = dict[str, list[dict[str, Any]]]  # encoded documents by split


class FinetuneObserver(Protocol):
    """Who is told what happens."""

    def note(self, text: str) -> None: ...

    def warning(self, text: str) -> None: ...

    def begin(self, steps: int) -> None: ...

    def logged(self, record: dict[str, Any]) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class FinetuneJob:
    """Settings, model, documents and run folder of one run."""

    config: FinetuneConfig
    classifier: Classifier
    rows: Rows
    folder: Path
    observer: FinetuneObserver
    device: str

    @property
    def store(self) -> Checkpoints:
        return Checkpoints(self.folder)

    @property
    def log(self) -> MetricsLog:
        return MetricsLog(self.folder)

    @property
    def at_once(self) -> int:
        """Documents in the device's memory at a time."""
        return min(self.config.at_once, self.config.batch)

    @property
    def parts(self) -> int:
        """The parts that a batch is computed in."""
        return math.ceil(self.config.batch / self.at_once)

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(math.ceil(len(self.rows["train"]) / self.at_once) / self.parts)

    @property
    def steps(self) -> int:
        return max(1, round(self.config.epochs * self.steps_per_epoch))

    @property
    def evaluate_every(self) -> int:
        return min(self.config.evaluate_every or self.steps_per_epoch, self.steps)

    @cached_property
    def fingerprint(self) -> str:
        """The checksum of all encoded documents, their labels and their order."""
        digest = hashlib.sha256()
        for split, rows in sorted(self.rows.items()):
            digest.update(split.encode())
            for row in rows:
                digest.update(json.dumps(row, sort_keys=True).encode())
        return digest.hexdigest()
