"""A run folder opened: its model, its tokenizer and the length of its segments, without task or corpus."""

from __future__ import annotations

import json
import logging
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from rmt.core.model import SegmentModel
from rmt.errors import CheckpointError, ConfigError, DataError
from rmt.experiments.run import TASK_FILE
from rmt.tasks.registry import task_class
from rmt.tasks.task import Task
from rmt.tasks.tokenizer import TaskTokenizer
from rmt.text.corpora import CORPORA
from rmt.text.prepare import OtherText
from rmt.text.tokenizer import has_tokenizer, load_tokenizer
from rmt.train.checkpoint import data_fingerprint, load, run_folder
from rmt.train.config import RunConfig, TaskConfig, build_task
from rmt.train.device import device_of
from rmt.train.stored import load_config

log = logging.getLogger(__name__)


class OpenedRun(NamedTuple):
    """What can be done with a run, wherever its folder is."""

    folder: Path
    config: RunConfig
    model: SegmentModel
    tokenizer: TaskTokenizer
    segment_length: int


def open_run(path: str | Path, device: str = "cpu") -> OpenedRun:
    """A run, or one of its checkpoints, made of its folder alone."""
    folder = run_folder(path)
    config = load_config(folder)
    model = load(path).to(device_of(device))
    if has_tokenizer(folder):
        return OpenedRun(folder, config, model, load_tokenizer(folder), stored_length(folder))
    task = run_task(folder, config)
    log.info(
        "%s is of release 0.1.0 and has no tokenizer of its own: taken from %s", folder, source_of(config)
    )
    return OpenedRun(folder, config, model, task.tokenizer(), task.tokens_per_segment(config.task.segments))


def stored_length(folder: Path) -> int:
    """The tokens of a segment, as the run wrote them down."""
    path = folder / TASK_FILE
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["segment_length"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{str(path)!r} is damaged ({error}); copy it from another copy of the run"
        ) from None


def source_of(config: RunConfig) -> str:
    return config.task.data or f"task {config.task.name}"


def run_task(folder: Path, config: RunConfig, data: str | None = None) -> Task:
    """The task of a run, with the very data that it was trained on; `data` says where they are now."""
    settings = config.task if data is None else moved(config.task, data)
    task, expected = located(settings), data_fingerprint(folder)
    if expected not in ("", task.fingerprint) and task.older and not has_tokenizer(folder):
        task = located(replace(settings, options={**settings.options, **task.older}))
    if expected not in ("", task.fingerprint):
        raise AnotherCorpus(f"it has the fingerprint {task.fingerprint}, not {expected}", settings)
    return task


class AnotherCorpus(DataError):
    """Data that are not those a run was trained on."""

    def __init__(self, reason: str, settings: TaskConfig):
        data = data_path(settings)
        other = ", or measure it in the run's vocabulary with --unknown error|skip|replace:SYMBOL"
        super().__init__(
            f"data={data!r} is another corpus than the one this run was trained on ({reason}); name that one "
            f"with --data{other if task_class(settings.name).layout == 'lanes' else ''}"
        )


def moved(settings: TaskConfig, data: str) -> TaskConfig:
    """The same settings with the data elsewhere."""
    if "data" not in {field.name for field in fields(task_class(settings.name))}:
        raise ConfigError(f"data={data} has no effect on task {settings.name!r}; leave it out")
    if "data" in settings.options:
        return replace(settings, options={**settings.options, "data": data})
    return replace(settings, data=data)


def data_path(settings: TaskConfig) -> str:
    return str(settings.options.get("data", settings.data))


def located(settings: TaskConfig) -> Task:
    """The task, if its data are where the settings say."""
    data = data_path(settings)
    if data and data not in CORPORA and not Path(data).exists():
        raise DataError(
            f"the data of this run, {data!r}, are not there any more; say where they are now with --data PATH"
        )
    try:
        return build_task(settings)
    except OtherText as error:
        raise AnotherCorpus(str(error), settings) from None
