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
from rmt.nn.adaptive import fits
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


class Portion(NamedTuple):
    """What one update learns from: some windows of a piece of data."""

    piece: FeedItem
    span: range  # the segments of the piece that the windows cover
    counted: int  # losses, over all processes
    last: bool  # of the piece
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
        """Train on the next piece of data; yields after every optimizer update, if there is a loss at all."""
        for portion in self.portions():
            yield self.learned(portion, self.updater.update(portion.batch))

    def portions(self) -> Iterator[Portion]:
        """The next piece of data, update by update: what one leaves is `learned` before the next is drawn."""
        piece, bptt = self.feed.piece(self.batches), self.config.bptt
        self.batches += 1
        new = piece.segments[piece.past :]
        self.samples += piece.samples
        self.tokens += self.config.train.batch * sum(part.tokens.shape[1] for part in new)
        planned = windows(piece.counts, bptt.depth, bptt.schedule, piece.past)
        groups = [planned] if bptt.schedule == "sequence" else [[window] for window in planned]
        for number, group in enumerate(groups, 1):
            counted = sum(piece.counts[index - piece.past] for window in group for index in window.counted)
            last = number == len(groups)
            if counted:
                yield self.portion(piece, group, counted, last)
                continue
            self.pass_over(piece, group[-1].stop)
            if last:
                self.feed.done(piece)

    def portion(self, piece: FeedItem, group: list[Window], counted: int, last: bool) -> Portion:
        """Windows of a piece with all that an update needs to know of them."""
        span = range(group[0].start, group[-1].stop)
        segments = piece.segments[span.start : span.stop]
        kind = UpdateKind(
            piece.length,
            tuple(window.seen_from(span.start) for window in group),
            tuple(segment.reset is not None for segment in segments),
            self.capacities(segments),
            any(piece.fresh[span.start : span.stop]),
        )
        resets = torch.stack([no_row(part) if part.reset is None else part.reset for part in segments], dim=1)
        columns = [torch.cat(column, dim=1) for column in zip(*(part[:3] for part in segments), strict=True)]
        states = states_needed(piece.incoming, span.start, self.config.bptt.replay_from)
        flat = (tensor for state in states for tensor in state.flat())
        numbers = torch.cat([torch.tensor([counted]), self.dropout_keys(self.step)])
        tensors = (numbers, *columns, resets, *flat)
        return Portion(piece, span, counted, last, WindowBatch(kind, tensors, self.step))

    def learned(self, portion: Portion, result: UpdateResult) -> Update:
        """Go on behind the segments of an update."""
        piece, span = portion.piece, portion.span
        piece.incoming[span.stop] = self.updater.state_of(result.state)
        forget(piece.incoming, span.start)
        self.step += 1
        if portion.last:
            self.feed.done(piece)
        return Update(result.loss, result.correct, portion.counted, result.norm)

    def pass_over(self, piece: FeedItem, stop: int) -> None:
        """Go on to a segment without an update: there is nothing to learn from what comes before it."""
        newest = max(piece.incoming)
        segments = piece.segments[newest:stop]
        keys = self.dropout_keys(-1 - self.step)  # not those of the next update
        piece.incoming[stop] = self.updater.state_behind(segments, piece.incoming[newest], keys)

    def dropout_keys(self, step: int) -> Tensor:
        """What makes the masks of dropout in an update, (2,): the same when it is made again."""
        return update_keys(self.config.seed, step, self.processes.global_rank)

    def capacities(self, segments: Sequence[Segment]) -> tuple[int, ...]:
        """The capacities of an adaptive softmax if they hold all targets, else none: exact without."""
        cutoffs = self.config.model.cutoffs
        if not self.slots or all(fits(segment.targets, cutoffs, self.slots) for segment in segments):
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
