"""How long a plan takes, roughly: by operations, and by a fixed time for every segment of an update."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rmt.bench.flops import work
from rmt.errors import RMTError
from rmt.experiments.cells import PlannedCell
from rmt.experiments.recipe import resolve
from rmt.experiments.suites_documents import most_updates
from rmt.experiments.trained_runs import is_stackable
from rmt.train.config import CurriculumConfig, RunConfig, build_task


class Speed(NamedTuple):
    """What a device does, from updates that were measured on it."""

    flops: float  # per second
    segment_seconds: float  # of an update, whatever is in the segment
    run_seconds: float  # of a run beside its updates and evaluations: start, test
    evaluation_seconds: float  # of one on the validation set
    extra_seed: float  # what each further seed of a stack costs, as a part of one alone


# H200: copy-24 in 9 segments 3.64 ms an update, 12 layers × 512 in 3 segments 18 to 22 ms, eight seeds 4.5 ×
# one (benchmarks/2026-11-15-speed.md); of a command of 10 s, 5.2 to its first update, 1.1 of updates, and the
# rest in three evaluations and the test (2026-11-18-engine.md). CPU: one core, copy-4 in 3 segments 30 ms.
SPEEDS = {
    "cuda": Speed(
        flops=3.7e14, segment_seconds=4e-4, run_seconds=8.0, evaluation_seconds=0.4, extra_seed=0.5
    ),
    "cpu": Speed(flops=2e10, segment_seconds=5e-3, run_seconds=5.0, evaluation_seconds=0.5, extra_seed=1.0),
}


class Estimate(NamedTuple):
    """A cell's updates and seconds; no seconds where its data or models are not here."""

    updates: int  # of all its runs
    seconds: float | None
    missing: str = ""


def estimate(cell: PlannedCell, device: str) -> Estimate:
    """What a cell asks for on a device."""
    try:
        if cell.command != "train":
            return Estimate(most_updates(cell), None, "at most, and its time depends on the pretrained model")
        config = resolve(cell.settings)
        seconds = update_seconds(config, SPEEDS[device])
    except RMTError as error:
        return Estimate(0, None, str(error))
    speed, steps = SPEEDS[device], config.train.steps
    trials = len(cell.rates)
    seeds = cell.seeds - cell.reuses_trial
    stacked = is_stackable(config) and seeds > 1
    alone = 1 + (seeds - 1) * speed.extra_seed if stacked else seeds
    trial_steps = cell.trial_steps or steps
    updates = trials * trial_steps + seeds * steps
    effort = trials * trial_steps + alone * steps
    aside = updates / config.train.evaluate_every * speed.evaluation_seconds
    return Estimate(updates, effort * seconds + aside + (trials + seeds) * speed.run_seconds)


def update_seconds(config: RunConfig, speed: Speed) -> float:
    """An update in the middle of training; under a curriculum, one of its last stage."""
    config = replace(config, curriculum=CurriculumConfig())
    batch = work(config, build_task(config.task))
    return (batch.flops / speed.flops + batch.segments * speed.segment_seconds) / batch.updates
