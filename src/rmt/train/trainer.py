"""A batch becomes updates: segments → windows → backward → clip → optimizer, for every model and task."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rmt.core.model import Output, SegmentModel
from rmt.core.recording import Recorder, compile_parts, sent
from rmt.core.state import State
from rmt.nn.adaptive import fits
from rmt.tasks.segments import Segment
from rmt.tasks.task import Task
from rmt.tasks.text import Text
from rmt.train.bptt import Plan, Window, enter, forget, replay, skim, windows
from rmt.train.config import RunConfig
from rmt.train.curriculum import Curriculum
from rmt.train.device import device_of
from rmt.train.feed import Documents, Feed, Piece, Stream, flat, unflat
from rmt.train.objective import Score, score
from rmt.train.optim import Rate, build_optimizers
from rmt.train.parallel import gathered, launch, shard, sum_gradients, whole


class Kind(NamedTuple):
    """What two updates have to share, beside their shapes, to be one recording."""

    length: int  # tokens per segment
    windows: tuple[Window, ...]
    resets: tuple[bool, ...]  # which segments may reset rows
    capacities: tuple[int, ...]  # of an adaptive softmax
    fresh: bool  # whether any row starts from the initial state


class Update(NamedTuple):
    """One optimizer update: tensors of this process, so that nothing waits, or the numbers of all."""

    loss: Any
    correct: Any
    counted: int
    norm: Any  # of the gradient, before clipping


class Trainer:
    """A model, its optimizers, and the place in the data where they are."""

    def __init__(self, config: RunConfig, task: Task | Text):
        self.config, self.task = config, task
        self.fabric = launch(
            device_of(config.device), config.precision, config.train.batch, config.train.accumulate
        )
        on_gpu = self.fabric.device.type == "cuda"
        if on_gpu:
            torch.set_float32_matmul_precision("high")
        if config.threads:
            torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)
        set_up: Any = self.fabric.setup_module(SegmentModel(config.model))
        self.model: SegmentModel = set_up.module
        # Fabric hands every output back in float32: too coarse for the memory of a model of doubles.
        self.wrapped: nn.Module = self.model if config.precision == "64-true" else set_up
        if config.strategy == "fsdp":
            shard(self.model, self.fabric)
        self.fast = config.compile == "auto" and on_gpu and config.strategy != "fsdp"
        made: Any = self.fabric.setup_optimizers(*build_optimizers(self.model, config.optimizer, self.fast))
        self.optimizers = list(made) if isinstance(made, (list, tuple)) else [made]
        if self.fabric.world_size > 1:
            torch.manual_seed(config.seed + 7919 * self.fabric.global_rank)  # each its own dropout
        # recomputing sets the random state, and processes talk to each other: neither is recorded
        recorded = self.fast and not config.bptt.checkpoint and self.fabric.world_size == 1
        self.update = Recorder(self.work, recorded)
        if self.fast:
            compile_parts(self.model)
        self.rate = Rate(config.rate, config.train.steps)
        self.curriculum = Curriculum(config.curriculum, task, config.task.segments)
        self.feed = self.build_feed()
        self.slots: tuple[int, ...] = ()  # capacities of an adaptive softmax, if they are needed
        if self.fast and config.model.cutoffs and isinstance(self.feed, Stream):
            self.slots = self.feed.lanes.capacities(self.feed.length, config.model.cutoffs)
        self.overflowed = 0  # updates that had more rare targets
        self.step = self.batches = self.samples = self.tokens = 0
        self.seconds = 0.0
        self.best, self.best_step = -sys.float_info.max, 0  # below every metric
        self.reached = False  # the target

    def build_feed(self) -> Feed:
        """Where segments come from."""
        share = self.config.train.batch // self.fabric.world_size
        first = self.fabric.global_rank * share
        with gathered(self.model):
            empty = self.model.empty_state(share)
        rows = slice(first, first + share)
        if isinstance(self.task, Text):
            return Stream(self.config, self.task, empty, rows)
        return Documents(self.config, self.task, self.curriculum, empty, rows)

    def updates(self) -> Iterator[Update]:
        """Train on the next piece of data; yields after every optimizer update, if there is a loss at all."""
        piece, bptt = self.feed.piece(self.batches), self.config.bptt
        self.batches += 1
        new = piece.segments[piece.past :]
        self.samples += self.config.train.batch * (len(new) if self.task.carries_state else 1)
        self.tokens += self.config.train.batch * sum(part.tokens.shape[1] for part in new)
        planned = windows(piece.counts, bptt.depth, bptt.schedule, piece.past)
        together = [planned] if bptt.schedule == "sequence" else [[window] for window in planned]
        for group in together:
            counted = sum(piece.counts[index - piece.past] for window in group for index in window.counted)
            made = [self.learn(piece, group, counted)] if counted else []
            if not counted:
                self.skim(piece, group[-1].stop)
            if group is together[-1]:
                self.feed.done(piece)  # before the last update is told: a checkpoint may follow
            yield from made

    def learn(self, piece: Piece, group: list[Window], counted: int) -> Update:
        """One update from the losses of some windows."""
        start, stop = group[0].start, group[-1].stop
        segments, incoming = piece.segments[start:stop], piece.incoming
        kind = Kind(
            piece.length,
            tuple(window.seen_from(start) for window in group),
            tuple(segment.reset is not None for segment in segments),
            self.capacities(segments),
            any(piece.fresh[start:stop]),
        )
        total = torch.tensor(float(counted))
        resets = torch.stack([no_row(part) if part.reset is None else part.reset for part in segments], dim=1)
        columns = [torch.cat(column, dim=1) for column in zip(*(part[:3] for part in segments), strict=True)]
        entering = flat(enter(incoming, start, self.config.bptt.replay_from))
        inputs = [sent(tensor, self.fabric.device) for tensor in (total, *columns, resets, *entering)]
        static = kind.capacities or not self.config.model.cutoffs  # shapes that do not depend on targets
        self.rate.apply(self.optimizers, self.step)
        loss, correct, norm, *after = (self.update if static else self.work)(kind, *inputs)
        incoming[stop] = unflat(after)
        forget(incoming, start)
        self.step += 1
        return Update(loss, correct, counted, norm)

    def work(self, kind: Kind, total: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """All of an update that runs on the device: gradients, clipping, the optimizers' step.

        Returns the loss, the right predictions, the gradient's norm and the state behind the segments.
        """
        portions = zip(*(column.chunk(self.config.train.accumulate) for column in inputs), strict=True)
        parts = [self.gradients(kind, total, *portion) for portion in portions]
        loss, correct, *after = zip(*parts, strict=True)
        if self.config.model.memory.recurrent and not kind.fresh:
            self.model.memory.tokens.grad = None  # no row began with it: momentum must not move it either
        sum_gradients(self.model)
        clip = self.config.optimizer.clip or math.inf
        norm = whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip))
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return torch.stack(loss).sum(), torch.stack(correct).sum(), norm, *map(torch.cat, after)

    def skim(self, piece: Piece, stop: int) -> None:
        """Only read up to a segment: there is nothing to learn from what comes before it."""
        newest = max(piece.incoming)
        segments = [self.fabric.to_device(quiet(segment)) for segment in piece.segments[newest:stop]]
        piece.incoming[stop] = skim(self.read, segments, piece.incoming[newest])

    def capacities(self, segments: list[Segment]) -> tuple[int, ...]:
        """The capacities of an adaptive softmax if they hold all targets, else none: exact without."""
        cutoffs = self.config.model.cutoffs
        if not self.slots or all(fits(segment.targets, cutoffs, self.slots) for segment in segments):
            return self.slots
        self.overflowed += 1
        return ()

    def gradients(
        self,
        kind: Kind,
        total: Tensor,
        tokens: Tensor,
        targets: Tensor,
        loss_mask: Tensor,
        resets: Tensor,
        *state: Tensor,
    ) -> tuple[Tensor, ...]:
        """The gradient of the mean loss of some windows; returns that loss, the right predictions, the state.

        Everything (B, n · L), but resets (B, n) and the state that the first segment starts from.
        """
        columns = (column.split(kind.length, dim=1) for column in (tokens, targets, loss_mask))
        segments = [
            Segment(*parts[:3], resets[:, index] if kind.resets[index] else None)
            for index, parts in enumerate(zip(*columns, strict=True))
        ]
        scores: list[Score] = []

        def loss_of(index: int, output: Output) -> Tensor:
            scores.append(score(output, segments[index]))
            if output.memory_loss is None:
                return scores[-1].loss
            share = segments[index].loss_mask.sum()
            return scores[-1].loss + self.config.train.memory_loss * output.memory_loss * share

        incoming = {0: unflat(list(state))}
        plan = Plan(kind.windows, checkpoint=self.config.bptt.checkpoint)
        read = partial(self.read, capacities=kind.capacities)
        for unrolled in replay(read, segments, incoming, loss_of, plan, [quiet(part) for part in segments]):
            self.fabric.backward(unrolled.loss / total)
        losses, correct = zip(*scores, strict=True)
        loss = torch.stack([one.detach() for one in losses]).sum() / total
        return loss, torch.stack(correct).sum(), *flat(incoming[len(segments)])

    def read(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output:
        """A segment's losses, if it is asked for any, and the state behind it."""
        asked = segment.targets.shape[1] > 0
        wanted = {"targets": segment.targets, "capacities": capacities} if asked else {"predict": False}
        if segment.reset is not None:
            state = self.model.initial_state(len(state.cached)).where(segment.reset, state)
        output: Output = self.wrapped(segment.tokens, state, **wanted)
        return output

    def uncompiled(self) -> AbstractContextManager[object]:
        """While this is open, layers run as written: calls of many shapes are not worth compiling."""
        return torch.compiler.set_stance("force_eager") if self.fast else nullcontext()

    def told(self, updates: list[Update]) -> list[Update]:
        """The same updates in numbers, over all processes; only here the host waits for the device."""
        sums = torch.stack([torch.stack([one.loss.double(), one.correct.double()]) for one in updates])
        total: Any = self.fabric.all_reduce(sums, reduce_op="sum")
        norms = torch.stack([one.norm for one in updates]).tolist()
        return [
            Update(loss, int(correct), one.counted, norm)
            for one, (loss, correct), norm in zip(updates, total.tolist(), norms, strict=True)
        ]


def quiet(segment: Segment) -> Segment:
    """The same segment with nothing to predict."""
    return segment._replace(targets=segment.targets[:, :0])


def no_row(segment: Segment) -> Tensor:
    """Resets nothing, (B,)."""
    return torch.zeros(len(segment.tokens), dtype=torch.bool)
