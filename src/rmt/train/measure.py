"""The metrics of a run on a split: by generating answers, or by predicting every token of a text."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import torch

from rmt.core.model import SegmentModel
from rmt.evaluate.evaluate import evaluate
from rmt.evaluate.perplexity import perplexity, with_cache
from rmt.tasks.task import Task
from rmt.text.task import Text
from rmt.train.config import RunConfig


class Room(NamedTuple):
    """What sequences that are evaluated at once may take."""

    rows: int
    logits: int  # of all their tokens, numbers in float32
    scores: int  # of a layer's attention, numbers in float32


# what fits beside a model and its training
GPU_ROOM = Room(2500, 1 << 29, 1 << 27)  # 2 GiB of logits, 512 MiB of scores
CPU_ROOM = Room(500, 1 << 27, 1 << 25)  # 512 MiB of logits, 128 MiB of scores
CACHED_SCORES = 1 << 21  # 8 MiB, for the caches of a CPU: 11 to 17 % less time at the paper's size
MIN_CACHED_ROWS = 32  # with fewer, the steps of generation take longer than caches save


class Measurement(NamedTuple):
    """What is measured, and how."""

    split: str
    samples: int | None = None  # the first so many examples; none = the whole split
    batch: int | None = None  # sequences or lanes of text at a time; none = what fits, or as in training
    thorough: bool = True  # else the usual metrics only
    progress: Callable[[int, int], None] = lambda done, total: None
    stand_in: StandIn | None = None  # generates answers for the model


class StandIn:
    """One model that takes the weights of others in turn: what a GPU records of it serves them all."""

    def __init__(self) -> None:
        self.model: SegmentModel | None = None

    def with_weights(self, model: SegmentModel) -> SegmentModel:
        """The one model with the weights of another configured alike; a sharded one is left as it is."""
        if type(model) is not SegmentModel:
            return model
        if self.model is None:
            self.model = deepcopy(model)
            return self.model
        with torch.no_grad():
            for weight, source in zip(self.model.parameters(), model.parameters(), strict=True):
                weight.copy_(source)
        return self.model


def measure(model: SegmentModel, task: Task, config: RunConfig, asked: Measurement) -> dict[str, float]:
    """The metrics that a task's layout has."""
    return MEASURES[task.layout](model, task, config, asked)


def sequence_metrics(
    model: SegmentModel, task: Task, config: RunConfig, asked: Measurement
) -> dict[str, float]:
    """Accuracies of generated answers."""
    if asked.stand_in is not None:
        model = asked.stand_in.with_weights(model)
    length = task.tokens_per_segment(config.task.segments)
    on_gpu = next(model.parameters()).device.type == "cuda"
    return evaluate(
        model,
        task,
        length,
        split=asked.split,
        samples=asked.samples,
        batch=asked.batch or rows_at_once(task, model, length, on_gpu),
        thorough=asked.thorough,
        progress=asked.progress,
        precision=config.precision,
    )


def lane_metrics(model: SegmentModel, task: Text, config: RunConfig, asked: Measurement) -> dict[str, float]:
    """Perplexity of every token, in lanes."""
    train = config.train
    lanes = task.lanes(asked.split, asked.batch or train.evaluate_batch or train.batch)
    if train.evaluate_cache is not None:
        model = with_cache(model, train.evaluate_cache)
    metrics = perplexity(model, lanes, task.segment_length, asked.progress, config.precision)
    if task.metric != "bits_per_character":
        del metrics["bits_per_character"]  # tokens are longer than characters
    return metrics


MEASURES: dict[str, Callable[..., dict[str, float]]] = {"sequences": sequence_metrics, "lanes": lane_metrics}


def rows_at_once(task: Task, model: SegmentModel, length: int, on_gpu: bool) -> int:
    """Sequences whose logits and whose attention scores of a layer fit, in segments of `length` tokens."""
    room, spans = GPU_ROOM if on_gpu else CPU_ROOM, model.spans(length)
    scores_of_row = model.config.heads * spans.queries * spans.keys
    fitting = min(room.logits // (task.total_length * task.vocabulary), room.scores // scores_of_row)
    cached = room.rows if on_gpu else max(MIN_CACHED_ROWS, CACHED_SCORES // scores_of_row)
    return min(room.rows, max(1, fitting), cached)
