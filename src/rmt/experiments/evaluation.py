"""A trained run measured on a split, wherever its data are now."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError, DataError
from rmt.experiments.opened import AnotherCorpus, run_task
from rmt.tasks.registry import task_class
from rmt.tasks.task import Task
from rmt.tasks.unknown import REMEDY, UnknownRule
from rmt.text.corpora import find_source
from rmt.text.corpus import DESCRIPTION
from rmt.text.prepare import prepare_corpus
from rmt.text.tokenizer import has_tokenizer, load_tokenizer, tokenizer_file
from rmt.train.check import check_run
from rmt.train.checkpoint import load, run_folder
from rmt.train.config import RunConfig, build_task
from rmt.train.device import device_of
from rmt.train.measure import measure
from rmt.train.stored import load_config

log = logging.getLogger(__name__)


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


def evaluate_run(
    run: str | Path, asked: Evaluation, progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, float]:
    """The metrics of a run."""
    folder = run_folder(run)
    config = changed(load_config(folder), asked)
    model = load(run).to(device_of(asked.device))
    with evaluated_task(folder, config, asked) as task:
        return measure(
            model, task, config, asked.split, samples=asked.samples, batch=asked.batch, progress=progress
        )


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


@contextmanager
def evaluated_task(folder: Path, config: RunConfig, asked: Evaluation) -> Iterator[Task]:
    """The task of a run with its data; with `unknown`, another text in the run's vocabulary."""
    try:
        task = run_task(folder, config, asked.data)
    except AnotherCorpus:
        if asked.unknown is None:
            raise
    else:
        yield task
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield other_text(folder, config, asked, Path(temporary) / "prepared")


def other_text(folder: Path, config: RunConfig, asked: Evaluation, out: Path) -> Task:
    """Another text, prepared for this evaluation only, in the run's own vocabulary."""
    data, rule = asked.data or config.task.data, UnknownRule.parse(asked.unknown or "error")
    if (Path(data) / DESCRIPTION).is_file():
        raise DataError(f"data={data!r} is prepared in another vocabulary; name its text instead")
    if not has_tokenizer(folder):
        raise DataError(
            f"{str(folder)!r} is of release 0.1.0 and has no vocabulary to read another text with"
        )
    tokenizer = load_tokenizer(folder).with_unknown(rule)
    source = find_source(data, tokenizer.kind)
    try:
        corpus = prepare_corpus(source, out, tokenizer_file(folder), rule=rule)
    except DataError as error:
        raise DataError(str(error).replace("leave out --vocabulary", REMEDY)) from None
    unknown = int(corpus.splits[asked.split]["unknown"]) if asked.split in corpus.splits else 0
    log.info(
        "%s is another text than the one this run was trained on; %s symbols of its %s split are not in the "
        "run's vocabulary (%s)",
        data,
        f"{unknown:,}",
        asked.split,
        asked.unknown,
    )
    return build_task(replace(config.task, data=str(out), tokens=None))
