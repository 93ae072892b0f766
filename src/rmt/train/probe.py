"""What passes through memory: the gradient at each border, and how far apart slots and inputs are there."""

# B inputs · M slots · D width · n borders, each behind a segment

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import hypot
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.core.state import State
from rmt.core.tree import tree_items
from rmt.tasks.segments import Segment, cut
from rmt.tasks.task import Task
from rmt.train.folder import is_number
from rmt.train.objective import loss

INPUTS = 16  # sequences of the validation set: a small part of what an evaluation costs


class MemoryProbe(NamedTuple):
    """A number for each border up to the probed segment: n floats each."""

    memory_gradient: list[float]  # norm of the gradient of the segment's mean loss at what is carried there
    slots_apart: list[float]  # norm of what is carried minus its mean over slots, over its norm
    inputs_apart: list[float]  # the same over inputs

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> MemoryProbe | None:
        """The probe that a line of metrics.jsonl has, if it has one whole."""
        values: list[Any] = [record.get(name) for name in cls._fields]
        is_whole = all(isinstance(value, list) and value and all(map(is_number, value)) for value in values)
        return cls(*values) if is_whole else None


def probed_segments(task: Task, length: int) -> list[Segment]:
    """The first inputs of the validation set, up to the first segment of their answer.

    Where an answer begins before the first border, up to the last segment.
    """
    batch = task.beginning("valid", INPUTS)
    segments = cut(Segment(*batch[:3]), length)
    first = min(batch.answer.any(0).nonzero().flatten().tolist(), default=0) // length
    return segments[: first + 1] if first else segments


def probe_memory(model: SegmentModel, segments: Sequence[Segment]) -> MemoryProbe:
    """Measure all borders of some sequences, by the loss of their last segment.

    The model, the gradients of its parameters and the random numbers stay as they are.
    """
    *before, last = segments
    with torch.enable_grad(), evaluating(model):
        state, states = model.initial_state(len(last.tokens)), list[State]()
        for segment in before:
            state = model(segment.tokens, state, predict=False).state
            states.append(state)
        output = model(last.tokens, state, targets=last.targets)
        mean = loss(output, last) / last.loss_mask.sum()
        carried = [list(carried_tensors(border)) for border in states]
        flat = [tensor for border in carried for tensor in border]
        gradients = iter(torch.autograd.grad(mean, flat, allow_unused=True, materialize_grads=True))
    return MemoryProbe(
        [norm([next(gradients) for _ in border]) for border in carried],
        [apart([tensor for tensor in border if tensor.dim() > 2], -2) for border in carried],
        [apart(border, 0) for border in carried],
    )


@contextmanager
def evaluating(model: SegmentModel) -> Iterator[None]:
    """While this is open, nothing is dropped."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def carried_tensors(state: State) -> Iterator[Tensor]:
    """What memory of any kind carries, but for what it counts with."""
    return (tensor for _, tensor in tree_items(state.carried) if tensor.is_floating_point())


def norm(tensors: Sequence[Tensor]) -> float:
    """The norm of tensors as one vector."""
    return hypot(*(float(tensor.detach().norm()) for tensor in tensors))


def apart(tensors: Sequence[Tensor], dimension: int) -> float:
    """The norm of tensors minus their means over a dimension, over their norm; 0 where nothing is carried."""
    whole = norm(tensors)
    return (
        norm([tensor - tensor.mean(dimension, keepdim=True) for tensor in tensors]) / whole if whole else 0.0
    )
