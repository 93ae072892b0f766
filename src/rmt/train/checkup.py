"""At each evaluation, a look at what passes through memory, and a word if the run does not learn."""

from __future__ import annotations

from typing import Protocol

from rmt.tasks.segments import Segment
from rmt.train.diagnosis import Diagnosis, EvaluatedStep, marginal_entropy
from rmt.train.log import MetricsLog
from rmt.train.probe import MemoryProbe, probe_memory, probed_segments
from rmt.train.processes import is_first
from rmt.train.trainer import Trainer


class Listener(Protocol):
    """Whoever is told."""

    def warning(self, text: str) -> None: ...


class Checkup:
    """The probes and the diagnosis of a run, in its log; only the first process has them.

    Memory is probed with the plain model in the run's own numbers, whatever way updates are computed.
    """

    def __init__(self, trainer: Trainer, log: MetricsLog, listener: Listener):
        self.trainer, self.log, self.listener = trainer, log, listener
        self.segments = self.segments_to_probe()
        entropy = marginal_entropy(trainer.task, trainer.config.train.evaluate_samples)
        self.diagnosis = Diagnosis(trainer.config, entropy, trainer.task.generates)

    def segments_to_probe(self) -> list[Segment]:
        """Sequences with a border that memory is carried over; none where there is none, or none whole."""
        trainer, config = self.trainer, self.trainer.config
        carries = config.model.memory.size > 0 and config.model.memory.recurrent
        if not carries or config.strategy == "fsdp":
            return []
        segments = probed_segments(trainer.task, trainer.task.tokens_per_segment(config.task.segments))
        if len(segments) < 2 or not len(segments[0].tokens):
            return []
        return [trainer.processes.to_device(segment) for segment in segments]

    def resume(self) -> None:
        """Know what the log says, and have memory probed before the first update."""
        if not is_first():
            return
        records = self.log.records()
        self.diagnosis.recall(records)
        if self.trainer.step == 0 and not any("memory_gradient" in record for record in records):
            self.probe()

    def probe(self) -> MemoryProbe | None:
        """Measure and log what passes through memory, if there is one."""
        if not self.segments:
            return None
        probe = probe_memory(self.trainer.model, self.segments, self.trainer.config.bptt.depth)
        self.diagnosis.probed(probe)
        self.log.write({"step": self.trainer.step, **probe._asdict()})
        return probe

    def evaluated(self, loss: float) -> None:
        """Go on behind an evaluation."""
        if not is_first():
            return
        evaluation = EvaluatedStep(self.trainer.step, loss, self.probe())
        record = self.diagnosis.evaluated(evaluation, self.stage_began)
        if record is not None:
            self.log.write(record)
            self.listener.warning(record["note"])

    @property
    def stage_began(self) -> int | None:
        """The update at which training on the whole task began: where rates fall from; none before that."""
        trainer = self.trainer
        if not trainer.curriculum.finished:
            return None
        return trainer.rate.falls_from if len(trainer.curriculum.stages) > 1 else 0

    @property
    def notes(self) -> list[str]:
        """What was said, in order."""
        return list(self.diagnosis.notes.values())
