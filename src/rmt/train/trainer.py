"""A batch becomes updates: segments → windows → one update each, for every model and task."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmt.core.bptt import Window, forget, states_needed, windows
from rmt.core.config import ModelConfig
from rmt.gpu.dropout import update_keys
from rmt.nn.adaptive import targets_fit_slots
from rmt.nn.widest import widest
from rmt.tasks.segments import Segment
from rmt.tasks.task import Task
from rmt.train.config import RunConfig
from rmt.train.curriculum import Curriculum
from rmt.train.device import decided
from rmt.train.feed import Feed, FeedItem, build_feed
from rmt.train.parallel import gathered
from rmt.train.single import SingleUpdater
from rmt.train.update import UpdateKind, UpdateResult, WindowBatch


class PlannedUpdate(NamedTuple):
    """What one update learns from: some windows of an item of the feed."""

    item: FeedItem
    span: range  # the segments of the item that the windows cover
    counted: int  # losses, over all processes
    last: bool  # of the item
    batch: WindowBatch


class Update(NamedTuple):
    """One optimizer update: tensors of this process, so that nothing waits for the device."""

    loss: Tensor
    correct: Tensor
    counted: int
    norm: Tensor  # of the gradient, before clipping


class UpdateNumbers(NamedTuple):
    """One optimizer update of all processes, in numbers."""

    loss: float
    correct: int
    counted: int
    norm: float


def marginal(task: Task, config: ModelConfig) -> Tensor | None:
    """How often each token is a target, (V,), where the output layer starts at that; none is never."""
    if config.output != "gained":
        return None
    counts = np.ones(config.vocabulary)  # with that of memory that predicts, which is no target
    counts[: task.vocabulary] += task.target_counts()
    return torch.from_numpy(counts / counts.sum()).float()


class Trainer:
    """A run's updates and the place in the data where they are."""

    def __init__(self, config: RunConfig, task: Task):
        self.config, self.task = decided(config), task
        self.updater = SingleUpdater(self.config, marginal(task, config.model))
        self.processes, self.model = self.updater.processes, self.updater.model
        self.optimizers, self.rate = self.updater.optimizers, self.updater.rate
        self.curriculum = Curriculum(config.curriculum, task, config.task.segments)
        if not self.curriculum.finished:  # short inputs are learned at the full rate, however long they take
            self.rate.hold()
        self.feed = self.build_feed()
        self.slots: tuple[int, ...] = ()  # capacities of an adaptive softmax, if they are needed
        if self.updater.accelerated and config.model.cutoffs:
            self.slots = self.feed.capacities(config.model.cutoffs)
        self.overflowed = 0  # updates that had more rare targets
        self.step = self.batches = self.samples = self.tokens = 0
        self.seconds = 0.0
        self.best, self.best_step = -sys.float_info.max, 0  # below every metric
        self.reached = False  # the target
        self.times_back = 0  # to a checkpoint, since the loss was no number
        self.unlogged: list[UpdateNumbers] = []  # updates before a stop that no line of the log has

    def build_feed(self) -> Feed:
        """Where segments come from."""
        share = self.config.train.batch // self.processes.world_size
        first = self.processes.global_rank * share
        with gathered(self.model):
            empty = self.model.empty_state(share)
        rows = slice(first, first + share)
        return build_feed(self.config, self.task, self.curriculum, empty, rows)

    def updates(self) -> Iterator[Update]:
        """Train on the next item; yields after every optimizer update, if there is a loss at all."""
        for planned in self.planned_updates():
            yield self.learned(planned, self.updater.update(planned.batch))

    def planned_updates(self) -> Iterator[PlannedUpdate]:
        """The updates of the next item: what one leaves is `learned` before the next is drawn."""
        item, bptt = self.feed.item(self.batches), self.config.bptt
        self.batches += 1
        new = item.segments[item.past :]
        self.samples += item.samples
        self.tokens += self.config.train.batch * sum(part.tokens.shape[1] for part in new)
        all_windows = windows(item.counts, bptt.depth, bptt.schedule, item.past)
        groups = [all_windows] if bptt.schedule == "sequence" else [[window] for window in all_windows]
        for number, group in enumerate(groups, 1):
            counted = sum(item.counts[index - item.past] for window in group for index in window.counted)
            last = number == len(groups)
            if counted:
                yield self.planned_update(item, group, counted, last)
                continue
            self.pass_over(item, group[-1].stop)
            if last:
                self.feed.done(item)

    def planned_update(self, item: FeedItem, group: list[Window], counted: int, last: bool) -> PlannedUpdate:
        """Windows of an item with all that an update needs to know of them."""
        span = range(group[0].start, group[-1].stop)
        segments = item.segments[span.start : span.stop]
        kind = UpdateKind(
            item.length,
            tuple(window.seen_from(span.start) for window in group),
            tuple(segment.reset is not None for segment in segments),
            self.capacities(segments),
            any(item.fresh[span.start : span.stop]),
        )
        resets = torch.stack([no_row(part) if part.reset is None else part.reset for part in segments], dim=1)
        columns = [torch.cat(column, dim=1) for column in zip(*(part[:3] for part in segments), strict=True)]
        states = states_needed(item.incoming, span.start, self.config.bptt.replay_from)
        flat = (tensor for state in states for tensor in state.flat())
        numbers = torch.cat([torch.tensor([counted]), self.dropout_keys(self.step)])
        tensors = (numbers, *columns, resets, *flat)
        return PlannedUpdate(item, span, counted, last, WindowBatch(kind, tensors, self.step))

    def learned(self, planned: PlannedUpdate, result: UpdateResult) -> Update:
        """Go on behind the segments of an update."""
        item, span = planned.item, planned.span
        item.incoming[span.stop] = self.updater.state_of(result.state)
        forget(item.incoming, span.start)
        self.step += 1
        if planned.last:
            self.feed.done(item)
        return Update(result.loss, result.correct, planned.counted, result.norm)

    def pass_over(self, item: FeedItem, stop: int) -> None:
        """Go on to a segment without an update: there is nothing to learn from what comes before it."""
        newest = max(item.incoming)
        segments = item.segments[newest:stop]
        keys = self.dropout_keys(-1 - self.step)  # not those of the next update
        item.incoming[stop] = self.updater.state_behind(segments, item.incoming[newest], keys)

    def dropout_keys(self, step: int) -> Tensor:
        """What makes the masks of dropout in an update, (2,): the same when it is made again."""
        return update_keys(self.config.seed, step, self.processes.global_rank)

    def capacities(self, segments: Sequence[Segment]) -> tuple[int, ...]:
        """The capacities of an adaptive softmax if they hold all targets, else none: exact without."""
        cutoffs = self.config.model.cutoffs
        fitting = (targets_fit_slots(segment.targets, cutoffs, self.slots) for segment in segments)
        if not self.slots or all(fitting):
            return self.slots
        self.overflowed += 1
        return ()

    def to_host(self, updates: Sequence[Update]) -> list[UpdateNumbers]:
        """Updates in numbers, over all processes; only here the host waits for the device."""
        columns = [
            torch.stack(column).to(widest(self.processes.device))
            for column in zip(*((update.loss, update.correct) for update in updates), strict=True)
        ]
        total = self.processes.all_reduce(torch.stack(columns, dim=1))
        norms = torch.stack([update.norm for update in updates]).tolist()
        return [
            UpdateNumbers(loss, int(correct), update.counted, norm)
            for update, (loss, correct), norm in zip(updates, total.tolist(), norms, strict=True)
        ]


def no_row(segment: Segment) -> Tensor:
    """Resets nothing, (B,)."""
    return torch.zeros(len(segment.tokens), dtype=torch.bool)
