"""How a step grows with the number of segments it unrolls: time, and memory with and without recomputing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from rmt.bench.measure import WAYS, Spread, Way, alone, peak_memory, spread, update_times
from rmt.core.model import SegmentModel
from rmt.errors import ConfigError
from rmt.tasks.task import Task
from rmt.train.config import BPTTConfig, RunConfig
from rmt.train.trainer import Trainer


class Point(NamedTuple):
    """A step over some segments."""

    segments: int
    way: str  # eager or fast
    recomputed: bool  # segments are computed again in the backward pass
    step: Spread
    peak: int | None  # bytes, as in `measure.Row`


class Fit(NamedTuple):
    """The straight line nearest to some points: start + slope · segments."""

    start: float
    slope: float
    error: float  # of the worst point, as a part of its value


def growth(
    name: str, config: RunConfig, task: Task, counts: Sequence[int], ways: Sequence[Way], steps: int
) -> Iterator[Point]:
    """Steps over each number of segments, all of the same length, gradients through all of them."""
    if task.layout != "lanes":
        raise ConfigError(
            f"growth needs segments of one length, which {name} does not have; name a configuration of text"
        )
    for way in ways:
        for recomputed in (False, True):
            for segments in counts:
                bptt = BPTTConfig(schedule="chunked", depth=segments - 1, checkpoint=recomputed)
                with alone(f"{name} in {segments} segments"):
                    yield point(replace(config, compile=way, bptt=bptt), task, steps)


def point(config: RunConfig, task: Task, steps: int) -> Point:
    trainer = Trainer(config, task)
    times = update_times(trainer, steps)
    peak = peak_memory(trainer.processes.device)
    segments = int(config.bptt.depth) + 1
    return Point(segments, WAYS[config.compile], config.bptt.checkpoint, spread(times), peak)


def border_bytes(config: RunConfig) -> int:
    """The state at one border: all that has to be kept for a further segment."""
    with torch.device("meta"):
        return SegmentModel(config.model).initial_state(config.train.batch).nbytes


def curves(points: Sequence[Point]) -> dict[tuple[str, bool], list[Point]]:
    """The points by way and by whether segments are recomputed."""
    by_way: dict[tuple[str, bool], list[Point]] = {}
    for measured in points:
        by_way.setdefault((measured.way, measured.recomputed), []).append(measured)
    return by_way


def fit(segments: Sequence[int], values: Sequence[float]) -> Fit:
    """Least squares of the relative errors, so that small numbers of segments count as much as large ones."""
    counts, measured = np.array(segments, dtype=float), np.array(values, dtype=float)
    slope, start = np.polyfit(counts, measured, 1, w=1 / measured)
    return Fit(float(start), float(slope), float(np.abs((start + slope * counts) / measured - 1).max()))
