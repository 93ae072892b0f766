"""A trained run measured on a split, wherever its data are now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError
from rmt.experiments.opened import load_model
from rmt.experiments.run_data import run_data
from rmt.location import require_trust
from rmt.precision import AskedPrecision, precision_of, weight_format
from rmt.tasks.registry import task_class
from rmt.train.check import check_run
from rmt.train.checkpoint import run_folder
from rmt.train.config import RunConfig
from rmt.train.device import device_of
from rmt.train.measure import Measurement, measure
from rmt.train.stored import load_config


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What to measure of a run; none = as in training."""

    split: str = "test"
    samples: int | None = None
    segments: int | None = None
    segment_length: int | None = None  # text: tokens of a segment
    cache: int | None = None
    batch: int | None = None
    data: str | None = None  # where the data are now
    unknown: str | None = None  # measures another text, and says what becomes of symbols it alone has
    device: str = "auto"
    precision: AskedPrecision = "auto"  # auto = that of training, where the device has it


def evaluate_run(
    run: str | Path, asked: Evaluation, progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, float]:
    """The metrics of a run."""
    folder = run_folder(run)
    config = load_config(folder)
    require_trust(config.task.name, "task.name", folder)
    config = changed(config, asked)
    device = device_of(asked.device)
    precision = precision_of(asked.precision, device, config.precision)
    model = load_model(run, config).to(device, weight_format(precision))
    config = replace(config, precision=precision)
    with run_data(folder, config, asked.data, asked.unknown) as task:
        measurement = Measurement(asked.split, asked.samples, asked.batch, progress=progress)
        return measure(model, task, config, measurement)


def changed(config: RunConfig, asked: Evaluation) -> RunConfig:
    """A run's settings with those that were named for this evaluation; none may be without effect."""
    task = task_class(config.task.name)
    settings = {*task.settings, *(field.name for field in fields(task))}
    needs = {
        "segments": "segments" in settings,
        "segment_length": "segment_length" in settings,
        "samples": "train.evaluate_samples" not in task.without_effect,
        "cache": "train.evaluate_cache" not in task.without_effect,
        "data": "data" in settings,
        "unknown": "data" in settings and "segment_length" in settings,
    }
    for name, applies in needs.items():
        if getattr(asked, name) is not None and not applies:
            value = getattr(asked, name)
            raise ConfigError(f"{name}={value} has no effect on task {config.task.name!r}; leave it out")
    named: dict[str, Any] = {"segments": asked.segments, "segment_length": asked.segment_length}
    other = replace(config.task, **{name: value for name, value in named.items() if value is not None})
    train = config.train if asked.cache is None else replace(config.train, evaluate_cache=asked.cache)
    config = replace(config, task=other, train=train)
    check_run(config, task)
    return config
