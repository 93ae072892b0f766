"""The trainers of some seeds as one: each parameter (K, …) is one leaf, and theirs are views of it."""

# K seeds · B rows · L tokens

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim import Optimizer
from torch.utils._pytree import tree_map
from torch.utils._triton import has_triton

from rmt.core.model import Output, SegmentModel
from rmt.core.recording import Recorder, sent
from rmt.core.serving import Served
from rmt.core.state import State
from rmt.tasks.segments import Segment
from rmt.train.learner import Answer, Kind, Learner, Request
from rmt.train.optim import build_optimizers
from rmt.train.trainer import Trainer, Update

COMPILED = 64  # readings: with a reset or without, with targets or without, for every number of seeds


class Stack:
    """Makes the updates of trainers that are at one step; until it is released, it holds what they learn."""

    def __init__(self, trainers: list[Trainer]):
        self.trainers = trainers
        self.known = 0  # parameters that optimizers know something of
        if not trainers:
            return
        first = trainers[0]
        self.config, self.fast = first.config, first.fast
        with torch.device("meta"):
            # how to read: it has no parameters of its own, but the number format of its tables
            self.model = SegmentModel(self.config.model).to(next(first.model.parameters()).dtype)
        owners = [dict(trainer.model.named_parameters()) for trainer in trainers]
        self.parameters = {
            name: nn.Parameter(torch.stack([own[name].detach() for own in owners])) for name in owners[0]
        }
        self.optimizers = build_optimizers(
            self.parameters.items(), self.config.optimizer, self.fast, stacked=True
        )
        self.take_states()
        for name, parameter in self.parameters.items():
            for own, view in zip(owners, parameter.data, strict=True):
                own[name].data = view
        self.served = None
        if first.served is not None:
            self.served = Served(self.model, first.served.dtype, self.parameters, most=first.served.most)
        learner = Learner(
            self.config,
            first.fabric,
            self.read,
            dict(self.parameters),
            self.optimizers,
            clip_each,
            first.learner.form,
            self.served,
        )
        self.update = Recorder(learner.work, self.fast)
        self.reading = read_each
        if self.served is None and self.fast and self.config.compile == "auto" and has_triton():
            torch._dynamo.config.recompile_limit = max(COMPILED, torch._dynamo.config.recompile_limit)
            self.reading = torch.compile(read_each, dynamic=False)

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Make an update of each trainer."""
        first = self.trainers[0]
        columns = zip(*(request.inputs for request in requests), strict=True)
        inputs = [sent(torch.stack(column), first.fabric.device) for column in columns]
        first.rate.apply(self.optimizers, first.step)
        outputs = self.update(self.kind([request.kind for request in requests]), *inputs)
        self.share_states()
        return list(zip(*(output.unbind(0) for output in outputs), strict=True))

    def updates(self) -> list[list[Update]]:
        """Train every trainer on its next piece of data; the updates of each."""
        made: list[list[Update]] = [[] for _ in self.trainers]
        for portions in zip(*(trainer.portions() for trainer in self.trainers), strict=True):
            lives = [one.learn(portion) for one, portion in zip(self.trainers, portions, strict=True)]
            counted = portions[0].counted > 0
            answers: Sequence[Any] = (
                self.answer([next(life) for life in lives]) if counted else [None] * len(made)
            )
            for mine, life, answer in zip(made, lives, answers, strict=True):
                try:
                    life.send(answer)
                except StopIteration as end:
                    mine += end.value
        return made

    def kind(self, kinds: list[Kind]) -> Kind:
        """The kind of all; targets that find no slot in an adaptive softmax give every position one."""
        kind, cutoffs = kinds[0], self.config.model.cutoffs
        if cutoffs and any(not one.capacities for one in kinds):
            positions = self.config.train.batch * kind.length
            return kind._replace(capacities=(positions,) * len(cutoffs))
        return kind

    def read(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output:
        """A segment's losses, if it is asked for any, and the state behind it, of every seed."""
        asked = segment.targets.shape[-1] > 0
        given = {"reset": segment.reset, "targets": segment.targets if asked else None}
        tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
        with self.autocast():
            found = self.reading(self.model, self.parameters, segment.tokens, state, tensors, capacities)
        logits, after, losses = tree_map(self.widened, found)
        return Output(logits, after, (), *losses)

    def autocast(self) -> AbstractContextManager[Any]:
        """Fabric's own, where a single trainer reads through Fabric."""
        mixed = self.config.precision == "bf16-mixed"
        return self.trainers[0].fabric.autocast() if mixed else nullcontext()

    def widened(self, tensor: Tensor) -> Tensor:
        """As Fabric hands on what was computed in bfloat16."""
        return tensor.float() if tensor.dtype == torch.bfloat16 else tensor

    def take_states(self) -> None:
        """Stack what the trainers' optimizers know; numbers, such as how many steps, are the same for all."""
        for number, optimizer in enumerate(self.optimizers):
            owned = [states_of(trainer.optimizers[number].optimizer) for trainer in self.trainers]
            for leaf, states in zip(parameters_of(optimizer), zip(*owned, strict=True), strict=True):
                for name, value in states[0].items():
                    values = [state[name] for state in states]
                    optimizer.state[leaf][name] = torch.stack(values) if value.dim() else value.clone()
        self.share_states()

    def share_states(self) -> None:
        """Let each trainer's optimizers see their part of the states, as soon as there are any."""
        known = sum(len(optimizer.state) for optimizer in self.optimizers)
        if known == self.known:
            return
        self.known = known
        for number, optimizer in enumerate(self.optimizers):
            for place, trainer in enumerate(self.trainers):
                own = trainer.optimizers[number].optimizer
                for mine, leaf in zip(parameters_of(own), parameters_of(optimizer), strict=True):
                    if leaf in optimizer.state:
                        state = optimizer.state[leaf].items()
                        own.state[mine] = {
                            name: value[place] if value.dim() else value for name, value in state
                        }

    def release(self) -> None:
        """Give each trainer back what is its own; recordings know only where things were."""
        for trainer in self.trainers:
            trainer.update.forget()
            for parameter in trainer.model.parameters():
                parameter.data = parameter.data.clone()
            for optimizer in trainer.optimizers:
                for state in optimizer.optimizer.state.values():
                    state.update({name: value.clone() for name, value in state.items()})
        if self.trainers:
            self.update.forget()


def read_each(
    model: SegmentModel,
    parameters: dict[str, nn.Parameter],
    tokens: Tensor,
    state: State,
    given: dict[str, Tensor],
    capacities: tuple[int, ...],
) -> tuple[Tensor, State, list[Tensor]]:
    """Read a segment (K, B, L) with each of K sets of parameters: logits, states, the losses asked for.

    Attention is the eager one, unless the layers are prepared: the fused kernels have no rule for batches of
    batches on every device.
    """
    alone = model.backbone.prepared is None
    fixed: dict[str, Any] = {"capacities": capacities} if "targets" in given else {"predict": False}

    def read(
        parameters: dict[str, Tensor], tokens: Tensor, state: State, given: dict[str, Tensor]
    ) -> tuple[Tensor, State, list[Tensor]]:
        named = {**given, **fixed, "attention": alone}
        output: Output = functional_call(model, parameters, (tokens, state), named)
        return output.logits, output.state, [one for one in output[3:] if one is not None]

    return vmap(read, randomness="different")(parameters, tokens, state, given)


def clip_each(parameters: list[Tensor], largest: float) -> Tensor:
    """Scale the gradient of each seed down to the largest norm by itself; returns their own, (K,)."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
    factors = (largest / (norms + 1e-6)).clamp(max=1.0)  # as clip_grad_norm_ does
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *(1,) * (gradient.dim() - 1)))
    return norms


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def states_of(optimizer: Optimizer) -> list[dict[str, Tensor]]:
    """What is known of each parameter; nothing, if it never had a gradient."""
    return [optimizer.state.get(parameter, {}) for parameter in parameters_of(optimizer)]


def ages(trainer: Trainer) -> list[list[float]]:
    """How many steps each parameter has made, where its optimizer counts them: seeds are stacked if equal."""
    states = (state for one in trainer.optimizers for state in states_of(one.optimizer))
    return [[float(value) for value in state.values() if value.dim() == 0] for state in states]
