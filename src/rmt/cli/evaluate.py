"""`rmt evaluate RUN`: measure a trained run on a whole split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rmt.cli.front import Command, Options
from rmt.config import at_least, option, required
from rmt.errors import ConfigError
from rmt.train.config import RunConfig

EXAMPLES = """examples:
  rmt evaluate runs/copy-8-3-rmt-modern-0
  rmt evaluate RUN --segments 6           the same model with shorter segments
  rmt evaluate RUN --split valid --json
  rmt evaluate RUN --segment_length 32 --cache 256  text: other segments and another cache than in training"""
NOT_FOR = {"text": ("samples", "segments"), "sequences": ("segment_length", "cache")}


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Options):
    """The options of `rmt evaluate`."""

    run: str = required("run folder, or one checkpoint in it", argument="RUN")
    split: Literal["train", "valid", "test"] = option("test", "which examples")
    samples: int | None = option(None, "only the first so many sequences", at_least(1))
    segments: int | None = option(None, "other number of segments than in training", at_least(1))
    segment_length: int | None = option(None, "text: other tokens per segment than in training", at_least(1))
    cache: int | None = option(None, "text: another cache than in training", at_least(0))
    batch: int | None = option(
        None,
        "sequences or lanes of text at a time; none = 500 sequences, or the lanes of training",
        at_least(1),
    )
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")
    json: bool = option(False, "print JSON")
    quiet: bool = option(False, "no progress bar")


COMMAND = Command(
    "evaluate",
    "Strict free-running accuracy, teacher-forced accuracy and the original's metric; or perplexity.",
    EXAMPLES,
    EvaluateOptions,
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    metrics = measure(options)
    if options.json:
        print(json.dumps(metrics))
        return 0
    for name, value in metrics.items():
        print(f"{name:24} {value:.4f}" if isinstance(value, float) else f"{name:24} {value}")
    return 0


def measure(options: EvaluateOptions) -> dict[str, float]:
    """The metrics of a run."""
    from rmt.cli.progress import counting
    from rmt.train.checkpoint import load, read_config, run_folder
    from rmt.train.config import build_task
    from rmt.train.device import device_of
    from rmt.train.measure import measure

    config = read_config(run_folder(options.run))
    kind = "text" if config.task.is_text else "sequences"
    for name in NOT_FOR[kind]:
        if getattr(options, name) is not None:
            raise ConfigError(f"{name}={getattr(options, name)} has no effect on {kind}; leave it out")
    task = build_task(config.task)
    with counting(f"{task.name}, {options.split}", options.quiet) as progress:
        return measure(
            load(options.run).to(device_of(options.device)),
            task,
            changed(config, options),
            options.split,
            samples=options.samples,
            batch=options.batch,
            progress=progress,
        )


def changed(config: RunConfig, options: EvaluateOptions) -> RunConfig:
    """A run's settings with those that were named for this evaluation."""
    named: dict[str, Any] = {"segments": options.segments, "segment_length": options.segment_length}
    task = replace(config.task, **{name: value for name, value in named.items() if value is not None})
    train = config.train
    if options.cache is not None:
        train = replace(train, evaluate_cache=options.cache)
    return replace(config, task=task, train=train)
