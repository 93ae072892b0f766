"""A run folder opened: its model, its tokenizer and the length of its segments, without task or corpus."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

import torch

from rmt.core.model import SegmentModel
from rmt.errors import CheckpointError, DataError, shown
from rmt.experiments.run_data import FROM_A_COPY, data_path, run_task, run_tokenizer, task_record
from rmt.location import require_trust
from rmt.precision import AskedPrecision, Precision, precision_of, weight_format
from rmt.tasks.tokenizer import TaskTokenizer
from rmt.text.tokenizer import has_tokenizer
from rmt.train.checkpoint import Checkpoints, load, run_folder
from rmt.train.config import RunConfig
from rmt.train.device import device_of
from rmt.train.stored import TASK_FILE, load_config

log = logging.getLogger(__name__)


class OpenedRun(NamedTuple):
    """What can be done with a run, wherever its folder is."""

    folder: Path
    config: RunConfig
    model: SegmentModel
    tokenizer: TaskTokenizer
    segment_length: int
    precision: Precision  # to compute in


def open_run(path: str | Path, device: str = "cpu", asked: AskedPrecision = "auto") -> OpenedRun:
    """A run, or one of its checkpoints, made of its folder alone."""
    folder = run_folder(path)
    config = load_config(folder)
    device = device_of(device)
    precision = precision_of(asked, device, config.precision)
    model = load_model(path, config).to(device, weight_format(precision))
    tokenizer, length = (stored_parts if has_tokenizer(folder) else parts_of_data)(folder, config)
    return OpenedRun(folder, config, model, tokenizer, length, precision)


def load_model(path: str | Path, config: RunConfig) -> SegmentModel:
    """The model of a run, or of one of its checkpoints; a run that is not finished is told of."""
    model, folder = load(path), Path(path)
    if folder == run_folder(path) and not (folder / "result.json").exists():
        step = Checkpoints(folder).chosen().removeprefix("step_")
        steps = config.train.steps
        log.warning("run %r is not finished: its weights are from step %s of %d", str(folder), step, steps)
    return model


def use_threads_of(path: str | Path) -> None:
    """Compute with as many CPU threads as a run was trained with: a small model is slower with more."""
    if threads := load_config(run_folder(path)).threads:
        torch.set_num_threads(threads)


def stored_parts(folder: Path, config: RunConfig) -> tuple[TaskTokenizer, int]:
    """The tokenizer of a run and the tokens of a segment, as they lie in its folder."""
    return run_tokenizer(folder), stored_length(folder)


def parts_of_data(folder: Path, config: RunConfig) -> tuple[TaskTokenizer, int]:
    """The same of a run of release 0.1.0, whose tokenizer is that of its data."""
    source = data_path(config.task) or f"task {config.task.name}"
    require_trust(config.task.name, "task.name", folder)
    try:
        task = run_task(folder, config)
    except DataError:
        raise CheckpointError(
            f"{str(folder)!r} has no tokenizer (release 0.1.0 stored none), and its data, {source!r}, "
            "are not there or have changed; put back the very data it was trained on"
        ) from None
    log.info("%s has no tokenizer of its own (release 0.1.0 stored none): taken from %s", folder, source)
    return task.tokenizer(), task.tokens_per_segment(config.task.segments)


def stored_length(folder: Path) -> int:
    """The tokens of a segment, as the run wrote them down."""
    length = task_record(folder).get("segment_length")
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        path = str(folder / TASK_FILE)
        raise CheckpointError(
            f"{path!r} is damaged: segment_length={shown(length)} is no length; {FROM_A_COPY}"
        )
    return length
