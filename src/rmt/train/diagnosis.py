"""A run that does not learn says so: what its evaluations show, and what to try.

Thresholds are from probed runs on copy of 360 symbols in 9 segments (docs/learning.md): those that died, and
one that lived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import torch

from rmt.tasks.registry import task_class
from rmt.tasks.task import Task
from rmt.train.config import RunConfig
from rmt.train.folder import is_number
from rmt.train.probe import MemoryProbe
from rmt.train.warmup import warmup_steps

ALIKE = 0.1  # slots apart at the last border: .05, .02 where memory died (updates 125, 175), .39 where not
DEAD = 0.01  # of the largest gradient at the first border: .004 and .001 where memory died, .09 where not
GUESSING = 0.98  # of the entropy: dead runs stay at 2.080 of 2.079
PATIENT_EVALUATIONS = 2  # that have to agree: one may fall into a dip
PATIENT_UPDATES = 600  # behind warm-up and curriculum; copy in 9 segments leaves chance within 400, if at all
STALLED_SHARE = 0.5  # of the entropy: what is below has learned the better part
STALLED_FALL = 0.99  # of the loss: what falls less in PATIENT_UPDATES has stopped falling


class EvaluatedStep(NamedTuple):
    """What one evaluation has shown."""

    step: int
    loss: float
    probe: MemoryProbe | None


class Obstacle(NamedTuple):
    """Something that keeps a run from learning."""

    name: str  # collapsed, dead, guessing or stalled
    text: str  # what was seen

    def record(self, step: int, remedy: str) -> dict[str, Any]:
        """A line of metrics.jsonl."""
        return {"step": step, "not_learning": self.name, "note": f"{self.text}; {remedy}"}


@dataclass
class Diagnosis:
    """The evaluations of a run, and what was said of them; each obstacle is said once."""

    config: RunConfig
    entropy: float  # of the targets under the loss: the least loss of a guess
    has_answers: bool = True  # that follow from the input; a text is never known whole
    evaluations: list[EvaluatedStep] = field(default_factory=list)
    largest_gradient: float = 0.0  # at the first border, of all probes
    notes: dict[str, str] = field(default_factory=dict)  # by the name of the obstacle

    def recall(self, records: Iterable[dict[str, Any]]) -> None:
        """Go on from the lines of a log."""
        self.evaluations, self.largest_gradient, self.notes = [], 0.0, {}
        for record in records:
            if record.get("split") == "valid" and is_number(record.get("loss")):
                self.evaluations.append(EvaluatedStep(record["step"], record["loss"], None))
            elif (probe := MemoryProbe.of_record(record)) is not None:
                self.probed(probe)
                if self.evaluations and self.evaluations[-1].step == record["step"]:  # it stands behind it
                    self.evaluations[-1] = self.evaluations[-1]._replace(probe=probe)
            elif "not_learning" in record:
                self.notes[str(record["not_learning"])] = str(record.get("note", ""))

    def probed(self, probe: MemoryProbe) -> None:
        """Learn of a probe."""
        self.largest_gradient = max(self.largest_gradient, probe.memory_gradient[0])

    def evaluated(self, evaluation: EvaluatedStep, stage_began: int | None = 0) -> dict[str, Any] | None:
        """Learn of an evaluation; a record of what keeps the run from learning, if that is new.

        Training on the whole task began at update `stage_began`; before the last stage of a curriculum
        (none), nothing is said.
        """
        self.evaluations.append(evaluation)
        obstacle = None if stage_began is None else self.obstacle(stage_began)
        if obstacle is None or obstacle.name in self.notes:
            return None
        record = obstacle.record(evaluation.step, remedy(self.config))
        self.notes[obstacle.name] = record["note"]
        return record

    def obstacle(self, stage_began: int) -> Obstacle | None:
        """The first thing that keeps the run from learning, by its evaluations so far."""
        recent = self.evaluations[-PATIENT_EVALUATIONS:]
        if len(recent) < PATIENT_EVALUATIONS:
            return None
        now, guesses = recent[-1], all(past.loss >= GUESSING * self.entropy for past in recent)
        is_stalled = (guesses or self.has_answers) and stalled(
            self.evaluations, self.entropy, warmup_of(self.config), stage_began
        )
        loss = f"at step {now.step} the loss is {now.loss:.3f}, where guessing has {self.entropy:.3f}"
        if (guesses or is_stalled) and now.probe is not None:
            if is_collapsed(recent):
                return Obstacle("collapsed", f"{collapse(now.probe)}, and {loss}")
            if is_dead(recent, self.largest_gradient):
                return Obstacle("dead", f"{death(now.probe, self.largest_gradient)}, and {loss}")
        if not is_stalled:
            return None
        if guesses:
            return Obstacle("guessing", f"{loss}, and so it was for {PATIENT_UPDATES} updates")
        return Obstacle("stalled", f"{loss}, and it has not fallen by 1 % in {PATIENT_UPDATES} updates")


def stalled(evaluations: Sequence[EvaluatedStep], entropy: float, warmup: int, stage_began: int) -> bool:
    """Whether a loss that is still high has long stopped falling, in its stage and behind the warm-up."""
    now = evaluations[-1]
    border = now.step - PATIENT_UPDATES
    before = [past.loss for past in evaluations if stage_began <= past.step <= border]
    since = [past.loss for past in evaluations if past.step > border]
    if border < warmup or not before:
        return False
    return now.loss >= STALLED_SHARE * entropy and min(since) > STALLED_FALL * min(before)


def is_collapsed(recent: Sequence[EvaluatedStep]) -> bool:
    """Whether what tells slot from slot is gone where the answer begins, in each of some evaluations."""
    return all(past.probe is not None and 0 < past.probe.slots_apart[-1] < ALIKE for past in recent)


def is_dead(recent: Sequence[EvaluatedStep], largest: float) -> bool:
    """Whether next to nothing is left of the gradient at the first border, in each of some evaluations."""
    return all(past.probe is not None and past.probe.memory_gradient[0] < DEAD * largest for past in recent)


def collapse(probe: MemoryProbe) -> str:
    return (
        f"the slots of memory have collapsed: only {probe.slots_apart[-1]:.2g} of their size tells them apart"
    )


def death(probe: MemoryProbe, largest: float) -> str:
    gradient = probe.memory_gradient[0]
    return f"the gradient through memory is dead: {gradient:.1g} at the first border, once {largest:.1g}"


def remedy(config: RunConfig) -> str:
    """What to try, by what a run is."""
    model, cache = config.model, config.model.cache.size
    if not (model.memory.size and model.memory.recurrent) and not cache:
        return "this model carries nothing from segment to segment: try --model rmt, or --segments 1"
    if not (model.memory.size and model.memory.recurrent):
        return f"a cache of {cache} in {model.layers} layers may not reach back far enough: try --model rmt"
    if config.recipe not in ("modern", "modern-2"):
        return "try --recipe modern"
    optimizer = config.optimizer
    has_muon = optimizer.name == "muon"
    rate = f"--matrix_lr {optimizer.matrix_lr / 2:g}" if has_muon else f"--lr {optimizer.lr / 2:g}"
    changes = f"try --rate.warmup {2 * warmup_of(config) or 100}, {rate}"
    if config.curriculum.over != "none" or not task_class(config.task.name).grows:
        return f"{changes}, or a larger --batch"
    return f"{changes}, a larger --batch, or shorter inputs first (--curriculum.over length)"


def warmup_of(config: RunConfig) -> int:
    """The updates of a run's warm-up."""
    return warmup_steps(config.rate.warmup, config.train.steps)


def marginal_entropy(task: Task, examples: int) -> float:
    """The loss, in nats, of knowing no more than how often each target occurs in so many examples."""
    batch = task.beginning("valid", examples)
    counts = torch.bincount(batch.targets[batch.loss_mask]).double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum()) if len(shares) else inf
