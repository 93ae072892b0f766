"""The runs of a cell of `rmt train`: a trial of a rate, seeds, and what a report needs of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rmt.config import from_dict
from rmt.errors import CheckpointError, RMTError
from rmt.evaluate.by_segment import accuracy_by_segment
from rmt.experiments.attention_maps import attention_maps
from rmt.experiments.cells import PlannedCell
from rmt.experiments.constant_answer import constant_answer
from rmt.experiments.holding import NewObserver, RunPart
from rmt.experiments.recipe import merge, resolve
from rmt.experiments.run import stored_fingerprint, train, train_seeds
from rmt.experiments.settings import Settings
from rmt.experiments.trials import RateTrial, has_diverged, note_divergence
from rmt.tasks.registry import task_class
from rmt.train.checkpoint import load
from rmt.train.config import RunConfig, build_task
from rmt.train.device import device_of
from rmt.train.divergence import Diverged
from rmt.train.ensemble import require_stackable
from rmt.train.folder import seed_folder
from rmt.train.log import MetricsLog

CURVE_POINTS = 40  # of a run's validation that are kept
BY_SEGMENT_SAMPLES = 1000  # test sequences whose answers are counted by segment
SLIM = ("seed", "value", "steps", "seconds", "samples", "tokens", "parameters", "state_bytes", "metrics")
HARDWARE = ("commit", "source", "torch", "device")


class TrainedRuns:
    """What trains a cell of `rmt train` in its folder."""

    def __init__(self, cell: PlannedCell, folder: Path, new_observer: NewObserver):
        self.cell, self.folder, self.new_observer = cell, folder, new_observer
        self.sign = task_class(cell.settings["task"]["name"]).sign  # 1 if more of the metric is better

    def tried(self, rate: float, run: Path) -> RateTrial:
        """Train seed 0 with a rate, for as long as a trial is."""
        if has_diverged(run):
            return RateTrial(rate, run, None, math.inf)
        settings, observer = self.cell.with_rate(rate), self.new_observer(run.name)
        if self.cell.trial_steps:
            settings = merge(settings, {"train": {"steps": self.cell.trial_steps}})
        try:
            result, _ = train(resolve(settings), run, observer)
        except Diverged as error:
            observer.warning(str(error))
            note_divergence(run, str(error))
            return RateTrial(rate, run, None, math.inf)
        metric = result["metric"]
        record = max(evaluations(run, metric), key=lambda line: self.sign * line[metric])
        return RateTrial(rate, run, record[metric], record["loss"])

    def of_seeds(self, settings: Settings, seeds: Sequence[int]) -> list[RunPart]:
        """The runs of seeds, all in one part where they can be trained at once."""
        configs = {seed_folder(self.folder, seed): resolve(merge(settings, {"seed": seed})) for seed in seeds}
        runs = [*configs]
        if len(runs) > 1 and is_stackable(configs[runs[0]]):
            observers = [self.new_observer(run.name) for run in runs]
            return [RunPart(runs, partial(train_seeds, configs[runs[0]], self.folder, observers))]
        return [
            RunPart([run], partial(train, config, run, self.new_observer(run.name)))
            for run, config in configs.items()
        ]

    @staticmethod
    def slim(run: Path, result: dict[str, Any]) -> dict[str, Any]:
        """What a report needs of a run: numbers, hardware, validation, answers by segment; maps of seed 0."""
        record = {name: result[name] for name in SLIM if name in result}
        metric = result["metric"]
        task = build_task(from_dict(RunConfig, result["config"]).task)
        known = {"fingerprint": stored_fingerprint(run), "constant": constant_answer(task)}
        curve = [(line["step"], line[metric]) for line in evaluations(run, metric)]
        spacing = math.ceil(len(curve) / CURVE_POINTS)
        return {
            "run": run.name,
            **record,
            **{name: value for name, value in known.items() if value},
            **{name: result["environment"][name] for name in HARDWARE},
            "curve": curve[::-spacing][::-1],
            "by_segment": by_segment(run, result["config"]),
            **({} if result["seed"] else {"maps": attention_maps(run, result["config"])}),
        }


def is_stackable(config: RunConfig) -> bool:
    try:
        require_stackable(config)
    except RMTError:
        return False
    return True


def evaluations(run: Path, metric: str) -> list[dict[str, Any]]:
    """The lines of a run's log that are evaluations on the validation split."""
    log = MetricsLog(run)
    lines = [line for line in log.records() if line.get("split") == "valid" and is_measured(line, metric)]
    if not lines:
        raise CheckpointError(
            f"{str(log.path)!r} has no evaluation of {metric}; delete {str(run)!r} to train it again"
        )
    return lines


def is_measured(line: Mapping[str, Any], metric: str) -> bool:
    """Whether a line has both numbers; of a bad rate, they may be infinite."""
    return all(isinstance(line.get(name), (int, float)) for name in (metric, "loss"))


def by_segment(run: Path, settings: dict[str, Any]) -> dict[str, float]:
    """Accuracy by answer segment, where answers are generated in more than one segment."""
    config = from_dict(RunConfig, settings)
    if not task_class(config.task.name).generates or config.task.segments == 1:
        return {}
    task = build_task(config.task)
    length = task.tokens_per_segment(config.task.segments)
    samples = min(BY_SEGMENT_SAMPLES, config.train.evaluate_samples)
    model = load(run).to(device_of(config.device))
    values = accuracy_by_segment(model, task, length, samples, config.precision)
    return {str(segment): value for segment, value in values.items()}
