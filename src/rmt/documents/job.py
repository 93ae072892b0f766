"""A fine-tuning run before it begins: what is trained on what, where, and in how many steps."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from rmt.documents.answering import MARGINS
from rmt.documents.config import FinetuneConfig
from rmt.documents.curriculum import SegmentCurriculum
from rmt.documents.task import DocumentTask
from rmt.documents.tuned import TunedModel
from rmt.train.checkpoint import Checkpoints
from rmt.train.log import MetricsLog
from rmt.train.processes import Processes

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
    tuned: TunedModel
    rows: Rows
    folder: Path
    observer: FinetuneObserver
    processes: Processes

    @property
    def task(self) -> DocumentTask:
        return self.tuned.task

    @property
    def store(self) -> Checkpoints:
        return Checkpoints(self.folder)

    @property
    def log(self) -> MetricsLog:
        return MetricsLog(self.folder)

    @property
    def at_once(self) -> int:
        """Documents in the device's memory at a time: the most that divide a process's share of a batch."""
        share = self.config.batch // self.processes.world_size
        return max(size for size in range(1, min(share, self.config.at_once) + 1) if share % size == 0)

    @property
    def parts(self) -> int:
        """The parts that a process computes its share of a batch in."""
        return self.config.batch // (self.at_once * self.processes.world_size)

    @property
    def steps_per_epoch(self) -> int:
        batches = math.ceil(len(self.rows["train"]) / self.at_once)
        return math.ceil(math.ceil(batches / self.processes.world_size) / self.parts)

    @property
    def steps(self) -> int:
        return max(1, round(self.config.epochs * self.steps_per_epoch))

    @property
    def evaluate_every(self) -> int:
        return min(self.config.evaluate_every or self.steps_per_epoch, self.steps)

    @property
    def curriculum(self) -> SegmentCurriculum:
        settings, segments = self.tuned.model.settings, self.config.segments
        first = 1 if self.config.curriculum == "segments" else segments
        inputs = self.task.tokenizer.model_input_names
        return SegmentCurriculum(
            segments, self.steps, settings.segment_length, settings.prefix, settings.suffix, first, inputs
        )

    @cached_property
    def fingerprint(self) -> str:
        """The checksum of all encoded documents, their labels and their order."""
        digest = hashlib.sha256()
        for split, rows in sorted(self.rows.items()):
            digest.update(split.encode())
            for row in rows:
                known = {name: value for name, value in row.items() if name not in MARGINS}  # to all releases
                digest.update(json.dumps(known, sort_keys=True).encode())
        return digest.hexdigest()
