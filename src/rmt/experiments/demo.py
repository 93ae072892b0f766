"""The demonstration: three models copy a sequence through three segments, with one recipe and one budget."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rmt.analysis.capture import capture
from rmt.analysis.examples import task_examples
from rmt.analysis.explorer import explore
from rmt.analysis.figures import write_and_read
from rmt.evaluate.generate import generate
from rmt.experiments.recipe import resolve
from rmt.experiments.run import facts
from rmt.tasks.registry import make_task
from rmt.tasks.segments import segment_length
from rmt.tasks.task import Task
from rmt.train.checkpoint import load
from rmt.train.config import RunConfig
from rmt.train.stored import load_config

MODELS = ("baseline", "transformer_xl", "rmt")
LENGTH, SEGMENTS = 8, 3


def config(model: str, steps: int) -> RunConfig:
    """The same task, recipe and budget for every model."""
    return resolve(
        {
            "task": {"name": "copy", "length": LENGTH, "segments": SEGMENTS},
            "preset": model,
            "train": {"steps": steps, "evaluate_every": 250},
            "device": "cpu",
        }
    )


def demonstrated_task() -> tuple[Task, int]:
    """The task of the demonstration and the length of its segments."""
    task = make_task("copy", length=LENGTH)
    return task, segment_length(task.total_length, SEGMENTS)


class WorkedExample(NamedTuple):
    """One test example, segment by segment."""

    source: str
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
        predicted = generate(load(folder / name), batch.tokens, batch.loss_mask, length)[0]
        answers[name] = task.render(predicted[answer].tolist())
    return WorkedExample(
        source=task.render(batch.tokens[0, :LENGTH].tolist()),
        segments=[task.render(segment.tolist()) for segment in batch.tokens[0].split(length)],
        wanted=task.render(batch.targets[0][answer].tolist()),
        answers=answers,
    )


def picture(folder: Path) -> Path:
    """The trained RMT's attention while it writes the source and while it reads it back, as a PNG."""
    task, length = demonstrated_task()
    tokens = task.split("test", 1).tokens[0]
    first, second, *_ = capture(load(folder / "rmt"), tokens, length)
    wrote, reads = (task.render(segment.tolist()).split() for segment in tokens.split(length)[:2])
    path = folder / "memory.png"
    write_and_read(first, second, (wrote, reads), path)
    return path


def explorer(folder: Path) -> Path:
    """The page that shows the trained RMT's memory at work on the first test examples."""
    task, length = demonstrated_task()
    examples = task_examples(task, "test", 1, 4)
    run = folder / "rmt"
    page = explore(
        load(run), examples, length, task.tokenizer().shown(), "rmt demo", facts(load_config(run), length)
    )
    path = folder / "explorer.html"
    path.write_text(page, encoding="utf-8")
    return path
