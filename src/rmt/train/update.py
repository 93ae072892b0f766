"""An optimizer update: gradients of windows, clipping, the optimizers' step, as one work of the device."""

# K seeds: the first dimension of everything, if models are stacked · B rows · L tokens · n segments

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from rmt.core.bptt import Plan, Window, replay
from rmt.core.model import Output, SegmentModel
from rmt.core.state import State
from rmt.core.unroll import RecurrentCell
from rmt.gpu.engine import Engine
from rmt.gpu.graphs import Recorder
from rmt.tasks.segments import Segment
from rmt.train import objective
from rmt.train.config import RunConfig
from rmt.train.optim import Rate
from rmt.train.parallel import SharedGradients
from rmt.train.processes import Processes

COLUMNS = 4  # tensors of an update before its states: tokens, targets, loss mask, resets


class UpdateKind(NamedTuple):
    """What two updates have to share, beside their shapes, to be one recording."""

    length: int  # tokens per segment
    windows: tuple[Window, ...]
    resets: tuple[bool, ...]  # which segments may reset rows
    capacities: tuple[int, ...]  # of an adaptive softmax
    fresh: bool  # whether any row starts from the initial state


class WindowBatch(NamedTuple):
    """What an update learns from, and its number."""

    kind: UpdateKind
    # how many losses count and two keys of dropout, (…, 3); tokens, targets, loss mask (…, B, n · L); resets
    # (…, B, n); states
    tensors: tuple[Tensor, ...]
    step: int  # updates made before


class UpdateResult(NamedTuple):
    """What an update leaves, on the device: nothing has waited for it."""

    loss: Tensor  # mean, () or (K,), as the next two
    correct: Tensor  # right predictions
    norm: Tensor  # of the gradient, before clipping
    state: tuple[Tensor, ...]  # behind the segments


class SegmentScore(NamedTuple):
    """How a segment was predicted."""

    loss: Tensor  # summed, () or (K,)
    predictions: Tensor  # (…, B, L)
    segment: Segment


class Updater(ABC):
    """A model, its optimizers and the recording of its updates: `update` is where they are stepped.

    `SingleUpdater` has one model, `StackedUpdater` the models of many seeds.
    """

    config: RunConfig
    processes: Processes
    model: SegmentModel
    parameters: dict[str, Tensor]
    optimizers: list[Optimizer]
    rate: Rate
    form: State  # any state of the model: how its tensors belong together
    engine: Engine | None  # the fast copy of the model, where there is one
    shared: SharedGradients | None  # of several processes
    recorder: Recorder  # of `step`; of several processes, of `collect`
    apply_recorder: Recorder  # of `apply`
    path: str  # the number format, the device and how updates run on it, in a line

    @abstractmethod
    def encode(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output:
        """A segment's losses, if it has targets, and the state behind it."""

    @abstractmethod
    def clip(self, largest: float) -> Tensor:
        """Scale the gradients of a model down to the largest norm; returns their own, () or (K,)."""

    def update(self, batch: WindowBatch) -> UpdateResult:
        """Make one update; recorded, where no shape in it depends on targets."""
        is_static = batch.kind.capacities or not self.config.model.cutoffs
        self.rate.apply(self.optimizers, batch.step)
        results = (self.recorder if is_static else self.recorder.run)(batch.kind, *batch.tensors)
        if self.shared is None:
            norm, loss, correct, *state = results
        else:
            loss, correct, *state = results
            self.shared.sum()
            (norm,) = self.apply_recorder(batch.kind.fresh, batch.tensors[0])
        torch.autograd.graph.increment_version(list(self.parameters.values()))  # a replay does not say so
        return UpdateResult(loss, correct, norm, tuple(state))

    def step(self, kind: UpdateKind, numbers: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """All of an update on the device: the gradient's norm, () or (K,), and what `collect` gives."""
        results = self.collect(kind, numbers, *inputs)
        return *self.apply(kind.fresh, numbers), *results

    def collect(self, kind: UpdateKind, numbers: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The gradients of an update.

        `numbers` (3,) or (K, 3) count the losses and make the masks of dropout. Returns the loss, the right
        predictions, () or (K,), and the state behind.
        """
        if self.shared is not None:
            self.shared.begin()
        total, keys = numbers[..., 0].float(), numbers[..., 1:]
        rows = total.dim()  # the dimension of the batch
        columns = (column.chunk(self.config.train.accumulate, dim=rows) for column in inputs)
        if self.engine is not None:
            lengths = (window.stop - window.start for window in kind.windows)
            self.engine.begin(keys, self.config.train.accumulate * sum(lengths))
        parts = [self.gradients(kind, total, *part) for part in zip(*columns, strict=True)]
        if self.engine is not None:
            self.engine.deliver()
        losses, correct, *after = zip(*parts, strict=True)
        state = (torch.cat(column, dim=rows) for column in after)
        return torch.stack(losses).sum(0), torch.stack(correct).sum(0), *state

    def apply(self, fresh: bool, numbers: Tensor) -> tuple[Tensor]:
        """Clip the gradients and step the optimizers; `fresh`: rows started from the initial memory."""
        if not fresh:
            self.leave_initial_memory()
        norm = self.clip(self.config.optimizer.clip or math.inf)
        for optimizer in self.optimizers:
            optimizer.step()
            if self.shared is None:
                optimizer.zero_grad()
        return (norm,)

    def gradients(self, kind: UpdateKind, total: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Add the gradient of the mean loss of some rows; returns the loss, the right predictions, the state.

        `inputs` are those of an update behind its numbers.
        """
        segments = segments_of(kind, *inputs[:COLUMNS])
        scores: list[SegmentScore] = []

        def loss_of(index: int, output: Output) -> Tensor:
            segment = segments[index]
            loss = objective.loss(output, segment)
            scores.append(SegmentScore(loss.detach(), objective.predictions(output, segment), segment))
            if output.memory_loss is None:
                return loss
            count = segment.loss_mask.sum((-2, -1))
            return loss + self.config.train.memory_loss * output.memory_loss * count

        incoming = dict(enumerate(self.states_of(inputs[COLUMNS:])))
        bptt = self.config.bptt
        cell: RecurrentCell[Output] = partial(self.encode, capacities=kind.capacities)
        plan = Plan(kind.windows, bptt.replay_from, bptt.checkpoint)
        if bptt.checkpoint and self.engine is not None:
            cell, plan = self.engine.recomputed(cell), plan._replace(checkpoint=False)
        unscored = [without_targets(segment) for segment in segments]
        for unrolled in replay(cell, segments, incoming, loss_of, plan, unscored):
            (unrolled.loss / total).sum().backward()
        losses, predictions, counted = zip(*scores, strict=True)
        loss, correct = torch.stack(losses).sum(0) / total, objective.correct(predictions, counted)
        return loss, correct, *incoming[len(segments)].with_dtypes_of(self.form).flat()

    def states_of(self, tensors: Sequence[Tensor]) -> list[State]:
        """The states that tensors in a row belong to."""
        size = len(self.form.flat())
        return [self.state_of(tensors[first : first + size]) for first in range(0, len(tensors), size)]

    def state_of(self, tensors: Sequence[Tensor]) -> State:
        """The state that `flat` gave the tensors of."""
        return self.form.unflatten(tensors)

    def leave_initial_memory(self) -> None:
        """No row began with the initial memory: momentum must not move it either."""
        for name in self.model.memory.initial_names:
            self.parameters[f"memory.{name}"].grad = None

    def forget_recordings(self) -> None:
        """What recordings know the addresses of lies elsewhere now."""
        self.recorder.forget()
        self.apply_recorder.forget()


def segments_of(
    kind: UpdateKind, tokens: Tensor, targets: Tensor, loss_mask: Tensor, resets: Tensor
) -> list[Segment]:
    """The segments of an update: everything (…, B, n · L), but resets (…, B, n)."""
    columns = (split_column(column, kind.length) for column in (tokens, targets, loss_mask))
    rows = [resets[..., index] if may_reset else None for index, may_reset in enumerate(kind.resets)]
    return [Segment(*parts) for parts in zip(*columns, rows, strict=True)]


def split_column(column: Tensor, length: int) -> Sequence[Tensor]:
    """(…, n · L) -> n × (…, L), each contiguous; the last may be shorter."""
    end = column.shape[-1] // length * length
    parts = column[..., :end].unflatten(-1, (-1, length)).movedim(-2, 0).contiguous().unbind(0)
    return parts if end == column.shape[-1] else (*parts, column[..., end:].contiguous())


def without_targets(segment: Segment) -> Segment:
    """The same segment with nothing to predict."""
    return segment._replace(targets=segment.targets[..., :0])
