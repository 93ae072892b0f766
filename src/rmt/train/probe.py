"""What passes through memory: the gradient at each border, and how far apart slots and inputs are there."""

# B inputs · M slots · D width · n borders, each behind a segment

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import hypot
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.core.bptt import Depth
from rmt.core.model import SegmentModel
from rmt.core.state import State
from rmt.core.tree import tree_items, tree_map
from rmt.infer.work import evaluation_mode
from rmt.tasks.segments import Segment, cut
from rmt.tasks.task import Task
from rmt.train.folder import is_number
from rmt.train.objective import loss

INPUTS = 16  # sequences of the validation set: a small part of what an evaluation costs
MOST_TOKENS = 2**18  # of all of them: as many as in updates of 16 sequences of 16,384 tokens


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

    Where an answer begins before the first border, up to its last segment.
    """
    batch = task.beginning("valid", max(1, min(INPUTS, MOST_TOKENS // task.total_length)))
    answered = [0, *(batch.answer.any(0).nonzero().flatten() // length).tolist()]  # numbers of segments
    begins = answered[1] if len(answered) > 1 else 0
    return cut(Segment(*batch[:3]), length)[: (begins or answered[-1]) + 1]


def probe_memory(model: SegmentModel, segments: Sequence[Segment], depth: Depth = "full") -> MemoryProbe:
    """Measure all borders of some sequences, by the loss of their last segment.

    Gradients reach as many segments before it as in training; further back they are 0. The model, the
    gradients of its parameters and the random numbers stay as they are.
    """
    *before, last = segments
    unreached = 0 if depth == "full" else max(0, len(before) - 1 - depth)  # borders
    state, states = model.initial_state(len(last.tokens)), list[State]()
    with evaluation_mode(model), torch.enable_grad():
        for number, segment in enumerate(before):
            with torch.set_grad_enabled(number > unreached):
                state = model(segment.tokens, state, predict=False).state
            state = started_from(state) if number == unreached else state
            states.append(state)
        output = model(last.tokens, state, targets=last.targets)
        mean = loss(output, last) / last.loss_mask.sum()
        carried = [list(carried_tensors(border)) for border in states]
        reached = [tensor for border in carried[unreached:] for tensor in border]
        gradients = iter(torch.autograd.grad(mean, reached, allow_unused=True, materialize_grads=True))
    return MemoryProbe(
        [0.0] * unreached + [norm([next(gradients) for _ in border]) for border in carried[unreached:]],
        [apart([tensor for tensor in border if tensor.dim() > 2], -2) for border in carried],
        [apart(border, 0) for border in carried],
    )


def started_from(state: State) -> State:
    """The same state as a beginning that gradients are measured at."""

    def leaf(tensor: Tensor) -> Tensor:
        return tensor.detach().requires_grad_(tensor.is_floating_point())

    return state._replace(carried=tree_map(leaf, state.carried))


def carried_tensors(state: State) -> Iterator[Tensor]:
    """What memory of any kind carries, but for what it counts with."""
    return (tensor for _, tensor in tree_items(state.carried) if tensor.is_floating_point())


def norm(tensors: Sequence[Tensor]) -> float:
    """The norm of tensors as one vector."""
    return hypot(*(float(tensor.detach().norm()) for tensor in tensors))


def apart(tensors: Sequence[Tensor], dimension: int) -> float:
    """The norm of tensors minus their means over a dimension, over their norm; 0 where nothing is carried."""
    whole = norm(tensors)
    if not whole:
        return 0.0
    return norm([tensor - tensor.mean(dimension, keepdim=True) for tensor in tensors]) / whole
