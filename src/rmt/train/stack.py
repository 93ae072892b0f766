"""The updates of many seeds as one: each parameter (K, …) is one leaf, and the seeds have views of it."""

# K seeds · B rows · L tokens

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from rmt.core.model import Output, SegmentModel
from rmt.core.state import State
from rmt.gpu.engine import Engine
from rmt.gpu.graphs import Recorder
from rmt.tasks.segments import Segment
from rmt.train.mixed import widened
from rmt.train.optim import build_optimizers
from rmt.train.single import SingleUpdater
from rmt.train.update import UpdateKind, Updater, UpdateResult, WindowBatch

CLIP_EPSILON = 1e-6  # added to a norm before it divides, as torch.nn.utils.clip_grad_norm_ does


class StackedUpdater(Updater):
    """Updates models that are at one step; until it is released, it holds what they learn."""

    def __init__(self, members: Sequence[SingleUpdater]):
        self.members = list(members)
        first = self.members[0]
        self.config, self.processes = first.config, first.processes
        self.rate, self.form = first.rate, first.form
        self.path = first.path
        with torch.random.fork_rng(devices=()):
            # how to encode: it has no parameters of its own, but the number format of its tables
            self.model = SegmentModel(self.config.model).to("meta", next(first.model.parameters()).dtype)
        self.parameters = {
            name: nn.Parameter(torch.stack([member.parameters[name].detach() for member in self.members]))
            for name in first.parameters
        }
        self.optimizers = build_optimizers(
            self.parameters.items(), self.config.optimizer, first.accelerated, stacked=True
        )
        self.known_states = 0  # parameters that optimizers know something of
        self.take_states()
        for name, parameter in self.parameters.items():
            for member, view in zip(self.members, parameter.data, strict=True):
                member.parameters[name].data = view
        self.engine = None
        if first.engine is not None:
            self.engine = Engine(self.model, first.engine.settings.dtype, parameters=self.parameters)
        self.shared = None
        self.recorder = Recorder(self.step, first.accelerated, self.processes.device)
        self.apply_recorder = Recorder(self.apply, False, self.processes.device)

    def update_each(self, batches: Sequence[WindowBatch]) -> list[UpdateResult]:
        """Make an update of each member."""
        columns = zip(*(batch.tensors for batch in batches), strict=True)
        tensors = tuple(torch.stack(column) for column in columns)
        kind = self.shared_kind([batch.kind for batch in batches])
        result = self.update(WindowBatch(kind, tensors, batches[0].step))
        self.share_states()
        losses, correct, norms, *state = (
            tensor.unbind(0) for tensor in (result.loss, result.correct, result.norm, *result.state)
        )
        states = zip(*state, strict=True)
        return [UpdateResult(*parts) for parts in zip(losses, correct, norms, states, strict=True)]

    def shared_kind(self, kinds: Sequence[UpdateKind]) -> UpdateKind:
        """The kind of all; targets that find no slot in an adaptive softmax give every position one."""
        kind, cutoffs = kinds[0], self.config.model.cutoffs
        if cutoffs and any(not kind.capacities for kind in kinds):
            positions = self.config.train.batch * kind.length
            return kind._replace(capacities=(positions,) * len(cutoffs))
        return kind

    def encode(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output:
        """A segment's losses, if it has targets, and the state behind it, of every seed."""
        has_targets = segment.targets.shape[-1] > 0
        options = {"reset": segment.reset, "targets": segment.targets if has_targets else None}
        tensors = {name: tensor for name, tensor in options.items() if tensor is not None}
        with self.processes.autocast():
            outputs = self.encode_each(segment.tokens, state, tensors, capacities)
        logits, after, losses = tree_map(widened, outputs)
        return Output(logits, after, (), *losses)

    def encode_each(
        self, tokens: Tensor, state: State, options: dict[str, Tensor], capacities: tuple[int, ...]
    ) -> tuple[Tensor, State, list[Tensor]]:
        """Encode a segment (K, B, L) with each of K sets of parameters: logits, states, the losses asked for.

        Without the engine, attention is the eager one: torch's fused kernels have no rule for batches of
        batches on every device.
        """
        model = self.model if self.engine is None else self.engine.model
        fixed: dict[str, Any] = {"capacities": capacities} if "targets" in options else {"predict": False}

        def encode(
            parameters: dict[str, Tensor], tokens: Tensor, state: State, options: dict[str, Tensor]
        ) -> tuple[Tensor, State, list[Tensor]]:
            named = {**options, **fixed, "attention": self.engine is None}
            output: Output = functional_call(model, parameters, (tokens, state), named)
            return output.logits, output.state, [loss for loss in output[3:] if loss is not None]

        return vmap(encode, randomness="different")(self.parameters, tokens, state, options)

    def clip(self, largest: float) -> Tensor:
        """Scale the gradient of each seed down to the largest norm by itself; returns their own, (K,)."""
        parameters = self.parameters.values()
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        each = list(zip(*(gradient.unbind(0) for gradient in gradients), strict=True))  # of every seed
        lengths = torch._foreach_norm([part for parts in each for part in parts])
        norms = torch.stack(lengths).view(len(each), -1).norm(dim=1)
        factors = (largest / (norms + CLIP_EPSILON)).clamp(max=1.0)
        for parts, factor in zip(each, factors.unbind(0), strict=True):
            torch._foreach_mul_(parts, factor)
        return norms

    def take_states(self) -> None:
        """Stack what the members' optimizers know; numbers, such as how many steps, are the same for all."""
        for number, optimizer in enumerate(self.optimizers):
            owned = [states_of(member.optimizers[number]) for member in self.members]
            for leaf, states in zip(parameters_of(optimizer), zip(*owned, strict=True), strict=True):
                for name, value in states[0].items():
                    values = [state[name] for state in states]
                    optimizer.state[leaf][name] = torch.stack(values) if value.dim() else value.clone()
        self.share_states()

    def share_states(self) -> None:
        """Let each member's optimizers see their part of the states, as soon as there are any."""
        known = sum(len(optimizer.state) for optimizer in self.optimizers)
        if known == self.known_states:
            return
        self.known_states = known
        for number, optimizer in enumerate(self.optimizers):
            for row, member in enumerate(self.members):
                share_row(optimizer, member.optimizers[number], row)

    def release(self) -> None:
        """Give each member back what is its own; recordings know only where things were."""
        for member in self.members:
            member.forget_recordings()
            for parameter in member.model.parameters():
                parameter.data = parameter.data.clone()
            for optimizer in member.optimizers:
                for state in optimizer.state.values():
                    state.update({name: value.clone() for name, value in state.items()})
        self.forget_recordings()


def share_row(stacked: Optimizer, optimizer: Optimizer, row: int) -> None:
    """Let the optimizer of one seed see its row of what the optimizer of all knows."""
    for parameter, leaf in zip(parameters_of(optimizer), parameters_of(stacked), strict=True):
        if leaf in stacked.state:
            states = stacked.state[leaf].items()
            optimizer.state[parameter] = {
                name: value[row] if value.dim() else value for name, value in states
            }


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def states_of(optimizer: Optimizer) -> list[dict[str, Tensor]]:
    """What is known of each parameter; nothing, if it never had a gradient."""
    return [optimizer.state.get(parameter, {}) for parameter in parameters_of(optimizer)]


def optimizer_steps(updater: SingleUpdater) -> list[list[float]]:
    """How many steps each parameter has made, where its optimizer counts them: seeds are stacked if equal."""
    states = (state for optimizer in updater.optimizers for state in states_of(optimizer))
    return [[float(value) for value in state.values() if value.dim() == 0] for state in states]
