"""All of an update that runs on the device, for one model or for many that are stacked."""

# K seeds: the first dimension of everything, if models are stacked · B rows · L tokens · n segments

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor

from rmt.core.bptt import Plan, Window, replay
from rmt.core.model import Output
from rmt.core.serving import Served
from rmt.core.state import State
from rmt.tasks.segments import Segment
from rmt.train import objective
from rmt.train.config import RunConfig
from rmt.train.parallel import sum_gradients, whole

Result = TypeVar("Result")
Answer = Sequence[Tensor]  # loss, right predictions, the gradient's norm, the state behind the segments
Clip = Callable[[list[Tensor], float], Tensor]


class Kind(NamedTuple):
    """What two updates have to share, beside their shapes, to be one recording."""

    length: int  # tokens per segment
    windows: tuple[Window, ...]
    resets: tuple[bool, ...]  # which segments may reset rows
    capacities: tuple[int, ...]  # of an adaptive softmax
    fresh: bool  # whether any row starts from the initial state


class Request(NamedTuple):
    """An update that a trainer wants made: the arguments of `Learner.work`."""

    kind: Kind
    inputs: tuple[Tensor, ...]


def answered(requests: Generator[Request, Answer, Result], answer: Callable[[Request], Answer]) -> Result:
    """What a generator of requests returns, if each of them is answered."""
    try:
        request = next(requests)
        while True:
            request = requests.send(answer(request))
    except StopIteration as end:
        result: Result = end.value
        return result


class Reads(Protocol):
    """A model: a segment's losses, if it is asked for any, and the state behind it."""

    def __call__(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output: ...


class Learner(NamedTuple):
    """A model as its reader, its parameters and their optimizers."""

    config: RunConfig
    fabric: Fabric
    read: Reads
    parameters: dict[str, Tensor]
    optimizers: list[Any]
    clip: Clip
    form: State  # of a state, whatever its batch
    served: Served | None = None

    def work(self, kind: Kind, total: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Gradients, clipping, the optimizers' step.

        `total` () or (K,) counts the losses. Returns the loss, the right predictions and the gradient's norm,
        shaped like it, and the state behind the segments.
        """
        rows = total.dim()  # where the batch is
        columns = (column.chunk(self.config.train.accumulate, dim=rows) for column in inputs)
        with self.served or nullcontext():
            parts = [self.gradients(kind, total, *portion) for portion in zip(*columns, strict=True)]
        if self.served is not None:
            self.served.deliver()
        loss, correct, *after = zip(*parts, strict=True)
        if self.config.model.memory.recurrent and not kind.fresh:
            self.parameters[
                "memory.tokens.weight"
            ].grad = None  # no row began with it: momentum must not move it
        parameters = list(self.parameters.values())
        sum_gradients(parameters)
        norm = self.clip(parameters, self.config.optimizer.clip or math.inf)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        state = (torch.cat(column, dim=rows) for column in after)
        return torch.stack(loss).sum(0), torch.stack(correct).sum(0), norm, *state

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

        Everything (…, B, n · L), but resets (…, B, n) and the state that the first segment starts from.
        """
        columns = (pieces(column, kind.length) for column in (tokens, targets, loss_mask))
        segments = [
            Segment(*parts[:3], resets[..., index] if kind.resets[index] else None)
            for index, parts in enumerate(zip(*columns, strict=True))
        ]
        told: list[tuple[Tensor, Tensor, Segment]] = []  # losses, predictions, and of which segment

        def loss_of(index: int, output: Output) -> Tensor:
            segment = segments[index]
            lost = objective.loss(output, segment)
            told.append((lost.detach(), objective.predictions(output, segment), segment))
            if output.memory_loss is None:
                return lost
            share = segment.loss_mask.sum((-2, -1))
            return lost + self.config.train.memory_loss * output.memory_loss * share

        incoming = {0: self.form.unflatten(state)}
        plan = Plan(kind.windows, checkpoint=self.config.bptt.checkpoint)
        read = partial(self.read, capacities=kind.capacities)
        for unrolled in replay(read, segments, incoming, loss_of, plan, [quiet(part) for part in segments]):
            self.fabric.backward((unrolled.loss / total).sum())
        losses, predicted, counted = zip(*told, strict=True)
        loss, correct = torch.stack(losses).sum(0) / total, objective.correct(predicted, counted)
        return loss, correct, *incoming[len(segments)].flat()


def pieces(column: Tensor, length: int) -> Sequence[Tensor]:
    """(…, n · L) -> n × (…, L), each in a place of its own; the last may be shorter."""
    end = column.shape[-1] // length * length
    parts = column[..., :end].unflatten(-1, (-1, length)).movedim(-2, 0).contiguous().unbind(0)
    return parts if end == column.shape[-1] else (*parts, column[..., end:].contiguous())


def clip_alone(parameters: list[Tensor], largest: float) -> Tensor:
    """Scale the gradient of one model down to the largest norm; returns its own, ()."""
    return whole(torch.nn.utils.clip_grad_norm_(parameters, largest))


def quiet(segment: Segment) -> Segment:
    """The same segment with nothing to predict."""
    return segment._replace(targets=segment.targets[..., :0])
