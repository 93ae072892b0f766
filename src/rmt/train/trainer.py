"""A batch becomes updates: segments → windows → backward → clip → optimizer, for every model and task."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rmt.core.bptt import Window, enter, forget, skim, windows
from rmt.core.model import Output, SegmentModel
from rmt.core.recording import Recorder, compile_parts, sent
from rmt.core.serving import MOST, served
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.nn.adaptive import fits
from rmt.tasks.segments import Segment
from rmt.tasks.task import Task
from rmt.train.config import RunConfig
from rmt.train.curriculum import Curriculum
from rmt.train.device import device_of
from rmt.train.feed import Feed, FeedItem, build_feed
from rmt.train.learner import Answer, Kind, Learner, Request, answered, clip_alone, quiet
from rmt.train.optim import Rate, build_optimizers
from rmt.train.parallel import gathered, launch, shard


class Portion(NamedTuple):
    """What one update learns from: some windows of a piece of data, and how many losses they count."""

    piece: FeedItem
    windows: list[Window]
    counted: int
    last: bool  # of the piece


class Update(NamedTuple):
    """One optimizer update: tensors of this process, so that nothing waits, or the numbers of all."""

    loss: Any
    correct: Any
    counted: int
    norm: Any  # of the gradient, before clipping


class Trainer:
    """A model, its optimizers, and the place in the data where they are."""

    def __init__(self, config: RunConfig, task: Task):
        self.config, self.task = config, task
        self.fabric = launch(
            device_of(config.device), config.precision, config.train.batch, config.train.accumulate
        )
        on_gpu = self.fabric.device.type == "cuda"
        if on_gpu:
            torch.set_float32_matmul_precision("high")
        elif config.compile == "record":
            raise ConfigError("compile=record has no effect on a CPU; leave it out, or use a GPU")
        if config.threads:
            torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)
        set_up: Any = self.fabric.setup_module(SegmentModel(config.model))
        self.model: SegmentModel = set_up.module
        # Fabric hands every output back in float32: too coarse for the memory of a model of doubles.
        self.wrapped: nn.Module = self.model if config.precision == "64-true" else set_up
        if config.strategy == "fsdp":
            shard(self.model, self.fabric)
        self.fast = config.compile != "off" and on_gpu and config.strategy != "fsdp"
        named = dict(self.model.named_parameters())
        optimizers = build_optimizers(named.items(), config.optimizer, self.fast)
        made: Any = self.fabric.setup_optimizers(*optimizers)
        self.optimizers = list(made) if isinstance(made, (list, tuple)) else [made]
        if self.fabric.world_size > 1:
            torch.manual_seed(config.seed + 7919 * self.fabric.global_rank)  # each its own dropout
        self.hindrance = self.hindered() if on_gpu else ""
        half, most = config.precision == "bf16-mixed", 0 if config.bptt.checkpoint else MOST
        self.served = served(self.model, half, most=most) if self.fast else None
        self.learner = Learner(
            config, self.fabric, self.read, named, self.optimizers, clip_alone, self.served
        )
        self.update = Recorder(self.learner.work, self.fast and not self.hindrance)
        if self.fast and config.compile == "auto" and self.served is None:
            compile_parts(self.model)
        self.rate = Rate(config.rate, config.train.steps)
        self.curriculum = Curriculum(config.curriculum, task, config.task.segments)
        self.feed = self.build_feed()
        self.slots: tuple[int, ...] = ()  # capacities of an adaptive softmax, if they are needed
        if self.fast and config.model.cutoffs:
            self.slots = self.feed.capacities(config.model.cutoffs)
        self.overflowed = 0  # updates that had more rare targets
        self.step = self.batches = self.samples = self.tokens = 0
        self.seconds = 0.0
        self.best, self.best_step = -sys.float_info.max, 0  # below every metric
        self.reached = False  # the target

    def hindered(self) -> str:
        """Why updates on a GPU cannot be recorded, if they cannot."""
        reasons = {
            "strategy=fsdp gathers and drops parameters": self.config.strategy == "fsdp",
            "bptt.checkpoint sets the random state": self.config.bptt.checkpoint,
            "several processes talk to each other": self.fabric.world_size > 1,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def build_feed(self) -> Feed:
        """Where segments come from."""
        share = self.config.train.batch // self.fabric.world_size
        first = self.fabric.global_rank * share
        with gathered(self.model):
            empty = self.model.empty_state(share)
        rows = slice(first, first + share)
        return build_feed(self.config, self.task, self.curriculum, empty, rows)

    def updates(self) -> Iterator[Update]:
        """Train on the next piece of data; yields after every optimizer update, if there is a loss at all."""
        for portion in self.portions():
            yield from answered(self.learn(portion), self.answer)

    def portions(self) -> Iterator[Portion]:
        """The next piece of data, update by update."""
        piece, bptt = self.feed.piece(self.batches), self.config.bptt
        self.batches += 1
        new = piece.segments[piece.past :]
        self.samples += piece.samples
        self.tokens += self.config.train.batch * sum(part.tokens.shape[1] for part in new)
        planned = windows(piece.counts, bptt.depth, bptt.schedule, piece.past)
        together = [planned] if bptt.schedule == "sequence" else [[window] for window in planned]
        for group in together:
            counted = sum(piece.counts[index - piece.past] for window in group for index in window.counted)
            yield Portion(piece, group, counted, last=group is together[-1])

    def learn(self, portion: Portion) -> Generator[Request, Answer, list[Update]]:
        """One update, or none where no loss counts; whoever drives this makes the update it asks for."""
        piece, stop, made = portion.piece, portion.windows[-1].stop, []
        if portion.counted:
            loss, correct, norm, *after = yield self.request(portion)
            piece.incoming[stop] = State.of(*after)
            forget(piece.incoming, portion.windows[0].start)
            self.step += 1
            made.append(Update(loss, correct, portion.counted, norm))
        else:
            self.skim(piece, stop)
        if portion.last:
            self.feed.done(piece)  # before the last update is told: a checkpoint may follow
        return made

    def request(self, portion: Portion) -> Request:
        """What an update needs."""
        piece, group = portion.piece, portion.windows
        start, stop = group[0].start, group[-1].stop
        segments = piece.segments[start:stop]
        kind = Kind(
            piece.length,
            tuple(window.seen_from(start) for window in group),
            tuple(segment.reset is not None for segment in segments),
            self.capacities(segments),
            any(piece.fresh[start:stop]),
        )
        total = torch.tensor(float(portion.counted))
        resets = torch.stack([no_row(part) if part.reset is None else part.reset for part in segments], dim=1)
        columns = [torch.cat(column, dim=1) for column in zip(*(part[:3] for part in segments), strict=True)]
        entering = enter(piece.incoming, start, self.config.bptt.replay_from).flat()
        return Request(kind, (total, *columns, resets, *entering))

    def answer(self, request: Request) -> Answer:
        """Make an update."""
        inputs = [sent(tensor, self.fabric.device) for tensor in request.inputs]
        static = request.kind.capacities or not self.config.model.cutoffs  # no shape depends on targets
        self.rate.apply(self.optimizers, self.step)
        return (self.update if static else self.learner.work)(request.kind, *inputs)

    def skim(self, piece: FeedItem, stop: int) -> None:
        """Only read up to a segment: there is nothing to learn from what comes before it."""
        newest = max(piece.incoming)
        segments = [self.fabric.to_device(quiet(segment)) for segment in piece.segments[newest:stop]]
        with self.uncompiled():
            piece.incoming[stop] = skim(self.read, segments, piece.incoming[newest])

    def capacities(self, segments: list[Segment]) -> tuple[int, ...]:
        """The capacities of an adaptive softmax if they hold all targets, else none: exact without."""
        cutoffs = self.config.model.cutoffs
        if not self.slots or all(fits(segment.targets, cutoffs, self.slots) for segment in segments):
            return self.slots
        self.overflowed += 1
        return ()

    def read(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output:
        """A segment's losses, if it is asked for any, and the state behind it."""
        asked = segment.targets.shape[-1] > 0
        wanted = {"targets": segment.targets, "capacities": capacities} if asked else {"predict": False}
        model, context = self.wrapped, nullcontext()
        if self.model.backbone.prepared is not None:  # Fabric would cast the state, too
            model, context = self.model, self.fabric.autocast()
        with context:
            output: Output = model(segment.tokens, state, reset=segment.reset, **wanted)
        return output

    def uncompiled(self) -> AbstractContextManager[object]:
        """While this is open, layers run as written: calls of many shapes are not worth compiling."""
        return torch.compiler.set_stance("force_eager") if self.fast else nullcontext()

    def told(self, updates: list[Update]) -> list[Update]:
        """The same updates in numbers, over all processes; only here the host waits for the device."""
        columns = [torch.stack(column).double() for column in zip(*(one[:2] for one in updates), strict=True)]
        total: Any = self.fabric.all_reduce(torch.stack(columns, dim=1), reduce_op="sum")
        norms = torch.stack([one.norm for one in updates]).tolist()
        return [
            Update(loss, int(correct), one.counted, norm)
            for one, (loss, correct), norm in zip(updates, total.tolist(), norms, strict=True)
        ]


def no_row(segment: Segment) -> Tensor:
    """Resets nothing, (B,)."""
    return torch.zeros(len(segment.tokens), dtype=torch.bool)
