"""The demonstration: three models recall a sequence from behind others, with one recipe and one budget.

What is asked for lies further back than a cache reaches, (layers − 1) · L · ⌈C/L⌉ + C tokens (`cache_reach`):
a cache must fail, however well it is trained, and memory need not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rmt.analysis.capture import capture
from rmt.analysis.examples import task_examples
from rmt.analysis.explorer import explore
from rmt.analysis.figures import write_and_read
from rmt.core.cache import cache_reach
from rmt.errors import RMTError
from rmt.evaluate.generate import generate
from rmt.experiments.cells import RECORD, PlannedCell
from rmt.experiments.follow import following
from rmt.experiments.launchers import LocalLauncher
from rmt.experiments.recipe import Settings, resolve
from rmt.experiments.reproduce import Ended, Limits, reproduce
from rmt.experiments.run import discard, facts, finished
from rmt.store import write_page
from rmt.tasks.registry import make_task
from rmt.tasks.segments import segment_length
from rmt.tasks.task import Task
from rmt.train.checkpoint import load
from rmt.train.config import RunConfig
from rmt.train.folder import load_result
from rmt.train.loop import Observer
from rmt.train.stored import load_config

MODELS = ("baseline", "transformer_xl", "rmt")
BATCH = 32  # sequences: quicker on a CPU than the recipe's 64, for all three models
EVALUATION = {"evaluate_every": 50, "evaluate_samples": 500}
TARGET = 0.995  # accuracy on the validation set that ends a training
LENGTH, DELAY, SEGMENTS = 8, 16, 4  # symbols asked for, symbols in between; segments of 8 tokens


def settings(model: str, steps: int) -> Settings:
    """The same task, recipe and budget for every model."""
    return {
        "task": {"name": "recall", "length": LENGTH, "segments": SEGMENTS, "options": {"delay": DELAY}},
        "preset": model,
        "train": {"steps": steps, "batch": BATCH, "target": TARGET, **EVALUATION},
        "device": "cpu",
        "precision": "32-true",
    }


def demonstrated_task() -> tuple[Task, int]:
    """The task of the demonstration and the length of its segments."""
    task = make_task("recall", length=LENGTH, delay=DELAY)
    return task, segment_length(task.total_length, SEGMENTS)


def train_all(
    folder: Path, steps: int, observers: Mapping[str, Observer], restart: bool = False
) -> dict[str, dict[str, Any]]:
    """The results of all models, trained side by side on the cores there are, or found."""
    configs = {name: resolve(settings(name, steps)) for name in MODELS}
    for name in MODELS if restart else ():
        if (run := run_folder(folder, name)).is_dir():
            discard(run)
    results = {name: finished(config, run_folder(folder, name), restart) for name, config in configs.items()}
    unfinished = [name for name in MODELS if not results[name]]
    for name in unfinished:
        (folder / name / RECORD).unlink(missing_ok=True)  # of a run that is there no more
    slowest_first = [PlannedCell(name=name, settings=settings(name, steps)) for name in reversed(unfinished)]

    def ended(cell: Ended, left: int) -> None:
        if not cell.record:
            raise RMTError(f"{cell.cell.name} could not be trained: {cell.last_line.removeprefix('rmt: ')}")
        results[cell.cell.name] = load_result(run_folder(folder, cell.cell.name))

    with following({run_folder(folder, cell.name): observers[cell.name] for cell in slowest_first}):
        reproduce(slowest_first, folder, LocalLauncher(), Limits(os.cpu_count() or 1), ended)
    return results


def run_folder(folder: Path, model: str) -> Path:
    """Where the one run of a model is."""
    return folder / model / "seed-0"


class Distance(NamedTuple):
    """How far back a model can look, and how far it must, in tokens before the segment of the answer."""

    reach: float  # infinite through memory
    nearest: int  # symbol that is asked for
    furthest: int


def distance(config: RunConfig) -> Distance:
    """Reach against distance, for a model of the demonstration."""
    task, length = demonstrated_task()
    start = (task.total_length - LENGTH) // length * length
    model = config.model
    reach = math.inf if model.memory.size else cache_reach(model.layers, length, model.cache.size)
    return Distance(reach, start - LENGTH + 1, start)


class WorkedExample(NamedTuple):
    """One test example, segment by segment."""

    segments: list[str]
    wanted: str
    answers: dict[str, str]  # by model


def work_example(folder: Path, models: tuple[str, ...] = MODELS) -> WorkedExample:
    """What each trained model answers to the first test example, generating freely."""
    task, length = demonstrated_task()
    batch = task.split("test", 1)
    answer = batch.answer[0]
    answers = {}
    for name in models:
        predicted = generate(load(run_folder(folder, name)), batch.tokens, batch.loss_mask, length)[0]
        answers[name] = task.render(predicted[answer].tolist())
    return WorkedExample(
        segments=[task.render(segment.tolist()) for segment in batch.tokens[0].split(length)],
        wanted=task.render(batch.targets[0][answer].tolist()),
        answers=answers,
    )


def picture(folder: Path) -> Path:
    """The trained RMT's attention while it writes the source and while it reads it back, as a PNG."""
    task, length = demonstrated_task()
    tokens = task.split("test", 1).tokens[0]
    first, *_, last = capture(load(run_folder(folder, "rmt")), tokens, length)
    wrote, *_, reads = (task.render(segment.tolist()).split() for segment in tokens.split(length))
    path = folder / "memory.png"
    write_and_read(first, last, (wrote, reads), path)
    return path


def explorer(folder: Path) -> Path:
    """The page that shows the trained RMT's memory at work on the first test examples."""
    task, length = demonstrated_task()
    examples = task_examples(task, "test", 1, 4)
    run = run_folder(folder, "rmt")
    page = explore(
        load(run), examples, length, task.tokenizer().shown(), "rmt demo", facts(load_config(run), length)
    )
    path = folder / "explorer.html"
    write_page(path, page)
    return path
