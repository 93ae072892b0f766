"""The metrics of a run on a split: by generating answers, or by predicting every token of a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmt.core.model import SegmentModel
from rmt.evaluate.evaluate import evaluate
from rmt.evaluate.perplexity import perplexity, with_cache
from rmt.tasks.task import Task
from rmt.text.task import Text
from rmt.train.config import RunConfig


class Measurement(NamedTuple):
    """What is measured, and how."""

    split: str
    samples: int | None = None  # the first so many examples; none = the whole split
    batch: int | None = None  # sequences or lanes of text at a time; none = what fits, or as in training
    thorough: bool = True  # else the usual metrics only
    progress: Callable[[int, int], None] = lambda done, total: None


def measure(model: SegmentModel, task: Task, config: RunConfig, asked: Measurement) -> dict[str, float]:
    """The metrics that a task's layout has."""
    return MEASURES[task.layout](model, task, config, asked)


def answers(model: SegmentModel, task: Task, config: RunConfig, asked: Measurement) -> dict[str, float]:
    """Accuracies of generated answers."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    return evaluate(
        model,
        task,
        task.tokens_per_segment(config.task.segments),
        split=asked.split,
        samples=asked.samples,
        batch=asked.batch or rows_at_once(task, on_gpu),
        thorough=asked.thorough,
        progress=asked.progress,
        precision=config.precision,
    )


def predictions(model: SegmentModel, task: Text, config: RunConfig, asked: Measurement) -> dict[str, float]:
    """Perplexity of every token, in lanes."""
    train = config.train
    lanes = task.lanes(asked.split, asked.batch or train.evaluate_batch or train.batch)
    if train.evaluate_cache is not None:
        model = with_cache(model, train.evaluate_cache)
    metrics = perplexity(model, lanes, task.segment_length, asked.progress, config.precision)
    if task.metric != "bits_per_character":
        del metrics["bits_per_character"]  # tokens are longer than characters
    return metrics


MEASURES: dict[str, Callable[..., dict[str, float]]] = {"sequences": answers, "lanes": predictions}


def rows_at_once(task: Task, on_gpu: bool) -> int:
    """Sequences whose logits fit: at most 2 GiB of them on a GPU, half a GiB elsewhere."""
    most, logits = (2500, 1 << 29) if on_gpu else (500, 1 << 27)
    return min(most, max(1, logits // (task.total_length * task.vocabulary)))
