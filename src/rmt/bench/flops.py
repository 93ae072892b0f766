"""Floating-point operations of a step, by formula: what the model needs, however it is computed.

A product of an (a, b) with a (b, c) matrix counts 2·a·b·c, its backward pass twice that. A segment has
Q = M+L+M rows, which see K = C+Q. Each layer has 4·D·H·E + 2·D·F weights for every row, 2·D·H·E for every
cached row, and attention over Q·K pairs: two products of H·E each, and a third for relative positions. The
output has D·V weights for every token of a segment with a loss, an adaptive softmax those of the clusters it
needs.

Not counted, though computed: segments computed again to save memory, distances that no pair has, what the
table of distances is projected by, scores of clusters without a target, the optimizer, whatever is no matrix
product. Nothing is counted where memory is of another kind than tokens, with products and blocks of its own.
"""

# B batch · L tokens · M memory · C cache · Q queries · K keys · V vocabulary
# D width · H heads · E head width · F inner width

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rmt.core.bptt import Window, windows
from rmt.core.config import ModelConfig
from rmt.errors import ConfigError
from rmt.tasks.task import Task
from rmt.text.task import Text
from rmt.train.config import RunConfig


class Cost(NamedTuple):
    """Operations of one segment's forward pass."""

    body: float  # of the layers
    output: float  # of the scores
    spared: float = 0.0  # of the body, without predictions: the last layer then makes the write block only

    @property
    def whole(self) -> float:
        return self.body + self.output


class Work(NamedTuple):
    """What one batch asks for."""

    updates: int
    tokens: int  # new ones; memory is not counted
    flops: float
    segments: int  # computed: those that a schedule replays count again


def work(config: RunConfig, task: Task) -> Work:
    """Updates, tokens and operations of a batch in the middle of training."""
    if config.curriculum.over != "none":
        raise ConfigError(
            f"curriculum.over={config.curriculum.over} changes the step while it is measured; leave it out"
        )
    batch, bptt = config.train.batch, config.bptt
    lengths, counts, share = SHAPES[task.layout](config, task)
    past = len(lengths) - len(counts)
    planned = windows(counts, bptt.depth, bptt.schedule, past)
    costs = [forward(config.model, length, batch, share) for length in lengths]
    carries = config.model.memory.size > 0 and config.model.memory.recurrent
    updates = 1 if bptt.schedule == "sequence" else sum(bool(window.counted) for window in planned)
    flops, segments = training(costs, planned, carries, past), len(list(passes(planned, carries, past)))
    return Work(updates, batch * sum(lengths[past:]), flops, segments)


class Shape(NamedTuple):
    """What a batch is made of."""

    lengths: list[int]  # tokens of its segments, those replayed first
    counts: list[int]  # losses of the new ones
    shares: list[float]  # of the targets, in each tail of an adaptive softmax


def sequence_shape(config: RunConfig, task: Task) -> Shape:
    """A batch of sequences."""
    drawn = task.fresh(config.train.batch, 0, config.seed)
    parts = drawn.loss_mask.split(task.tokens_per_segment(config.task.segments), dim=1)
    share = shares(drawn.targets.numpy(), config.model.cutoffs)
    return Shape([part.shape[1] for part in parts], [int(part.sum()) for part in parts], share)


def lane_shape(config: RunConfig, task: Text) -> Shape:
    """The next segments of some lanes."""
    length, depth = task.segment_length, int(config.bptt.depth)
    new, past = (depth + 1, 0) if config.bptt.schedule == "chunked" else (1, depth)
    targets = task.corpus.tokens("train")
    return Shape([length] * (past + new), [length] * new, shares(targets, config.model.cutoffs))


SHAPES: dict[str, Callable[..., Shape]] = {"sequences": sequence_shape, "lanes": lane_shape}


def shares(targets: np.ndarray, cutoffs: Sequence[int]) -> list[float]:
    """The part of the targets that lies in each tail of an adaptive softmax."""
    above = [float((targets >= cutoff).mean()) for cutoff in cutoffs]
    return [more - less for more, less in pairwise([*above, 0.0])]


class Pass(NamedTuple):
    """A segment that is computed."""

    segment: int  # its number
    counted: bool  # it has a loss
    learns: bool  # it has a backward pass


def passes(planned: Sequence[Window], carries: bool, past: int = 0) -> Iterator[Pass]:
    """All that the windows compute; a window without a loss is only encoded where it is new."""
    seen = past
    for window in planned:
        last = max(window.counted, default=-1)
        for index in range(window.start if window.counted else seen, window.stop):
            counted = index in window.counted
            yield Pass(index, counted, counted or (carries and index < last))  # through the memory it leaves
        seen = window.stop


def training(costs: Sequence[Cost], planned: Sequence[Window], carries: bool, past: int = 0) -> float:
    """Forward and backward passes of all windows."""
    total = 0.0
    for segment, counted, learns in passes(planned, carries, past):
        body = costs[segment].body - (0.0 if counted else costs[segment].spared)
        total += (3 if learns else 1) * body + 3 * counted * costs[segment].output
    return total


def forward(model: ModelConfig, tokens: int, batch: int, share: Sequence[float] = ()) -> Cost:
    """Encode one segment of `tokens` tokens in each of `batch` rows; 0 where that is not known."""
    if model.memory.kind != "tokens":
        return Cost(0.0, 0.0)
    heads, width = model.heads * model.head_width, model.width
    queries = tokens + model.memory.size * (1 + model.memory.write)
    keys = model.cache.rows + queries
    weights = 4 * width * heads + 2 * width * model.inner_width
    products = 2 if model.positions == "rotary" else 3
    rows = queries * weights + model.cache.rows * 2 * width * heads
    body = 2 * batch * model.layers * (rows + products * queries * keys * heads)
    row = (
        2 * width * heads + 2 * width * model.inner_width + products * keys * heads
    )  # beyond its key and value
    unwritten = 0 if model.memory.carries_read else tokens + model.memory.size
    return Cost(body, 2 * batch * tokens * scored(model, share), 2 * batch * unwritten * row)


def scored(model: ModelConfig, share: Sequence[float]) -> float:
    """Weights that score the target of one token, on average."""
    if not model.cutoffs:
        return model.width * model.vocabulary
    clusters = [stop - start for start, stop in pairwise((0, *model.cutoffs, model.vocabulary))]
    clusters[0] += len(model.cutoffs)
    weights = 0.0
    for index, (size, part) in enumerate(zip(clusters, (1, *share), strict=True)):
        narrow = model.width // model.div_val**index
        projection = 2 * model.width * narrow if model.div_val > 1 else 0  # in and out
        weights += part * (narrow * size + projection)
    return weights
