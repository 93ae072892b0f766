"""What memory holds and what hangs on it: linear decoding, interventions, gradients over time."""

# B batch · T tokens of all segments · S segments · M memory · D width · P positions of the source · V symbols

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.errors import ConfigError
from rmt.evaluate.generate import generate
from rmt.tasks.segments import Segment
from rmt.tasks.task import Batch

RIDGE = 1e-3  # of the mean square of the inputs: the decoder's weights stay small where inputs are alike
NEGLIGIBLE = 0.1  # of the nearest gradient: what is below it does not count as reached


class Decoded(NamedTuple):
    """How well source symbols are read off the memory by a linear map, on inputs it was not fitted to."""

    slots: Tensor  # (S, M, P) accuracy for each slot alone
    whole: Tensor  # (S, P) accuracy for all slots together
    chance: float  # accuracy of always saying the commonest symbol


@torch.no_grad()
def memories(model: Any, tokens: Tensor, length: int) -> Tensor:
    """The memory that every segment of sequences (B, T) leaves behind: (S, B, M, D)."""
    state, left_behind = model.initial_state(len(tokens)), []
    for segment in tokens.split(length, dim=1):
        state = model(segment, state).state
        left_behind.append(state.memory)
    return torch.stack(left_behind)


def decode(memory: Tensor, symbols: Tensor) -> Decoded:
    """Fit on the first half of the batch, measure on the second: memory (S, B, M, D), symbols (B, P)."""
    if memory.shape[1] != len(symbols) or len(symbols) < 4:
        raise ConfigError(
            f"memory of {memory.shape[1]} inputs and symbols of {len(symbols)} cannot be decoded; "
            "give at least 4 inputs, the same for both"
        )
    memory = memory.double()
    slots = torch.stack([linear_accuracy(slot, symbols) for slot in memory.transpose(1, 2).flatten(0, 1)])
    whole = torch.stack([linear_accuracy(after.flatten(1), symbols) for after in memory])
    _, counts = symbols[len(symbols) // 2 :].unique(return_counts=True)
    return Decoded(slots.unflatten(0, memory.shape[::2]), whole, float(counts.max() / counts.sum()))


def linear_accuracy(inputs: Tensor, symbols: Tensor) -> Tensor:
    """How often a ridge regression of inputs (B, D) to one-hot symbols (B, P) is right: (P,)."""
    half = len(inputs) // 2
    centred = inputs - inputs[:half].mean(0)
    seen = F.pad(centred, (0, 1), value=1.0)  # (B, D + 1)
    wanted = F.one_hot(symbols).to(seen).flatten(1)  # (B, P · V)
    fit, weight = seen[:half], RIDGE * seen[:half].square().mean().clamp_min(1e-12) * half
    gram = fit.T @ fit + weight * torch.eye(fit.shape[1]).to(fit)
    scores = seen[half:] @ torch.linalg.solve(gram, fit.T @ wanted[:half])
    guessed = scores.unflatten(1, (symbols.shape[1], -1)).argmax(-1)
    return (guessed == symbols[half:]).double().mean(0)


Change = Callable[[Tensor], Tensor]  # memory (B, M, D) -> memory (B, M, D)


def untouched(memory: Tensor) -> Tensor:
    return memory


def ablated(memory: Tensor) -> Tensor:
    """Every input gets the mean memory of all: the right scale, nothing of its own."""
    return memory.mean(0, keepdim=True).expand_as(memory)


def shuffled(memory: Tensor) -> Tensor:
    """The slots of every input in a random order of its own."""
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(memory.shape[:2], generator=generator).argsort(1).to(memory.device)
    return memory.take_along_dim(order[..., None], dim=1)


def swapped(memory: Tensor) -> Tensor:
    """Every input gets the memory of the input before it."""
    return memory.roll(1, 0)


CHANGES: dict[str, Change] = {
    "untouched": untouched,
    "ablated": ablated,
    "shuffled": shuffled,
    "swapped": swapped,
}


class Effect(NamedTuple):
    """What became of the answers: the share of characters that are right."""

    input: float  # for the input itself
    previous_input: float  # for the input before it, whose memory it has got when memory is swapped


class Resumed(NamedTuple):
    """A model that starts from a given state instead of its initial one."""

    model: Any
    state: Any

    def initial_state(self, batch: int) -> Any:
        return self.state

    def open(self, state: Any, room: int = 0) -> Any:
        return self.model.open(state, room)


@torch.no_grad()
def intervene(model: Any, batch: Batch, length: int, change: Change, before: int) -> Tensor:
    """Free-running predictions from segment number `before` (0 is the first) on, after a change of memory.

    All earlier segments are read as they are, and so is the first token after the change: (B, T - start).
    """
    start = before * length
    if not 0 < start < batch.tokens.shape[1]:
        raise ConfigError(
            f"before={before} is not a border between segments of {length} in {batch.tokens.shape[1]} tokens"
        )
    state = model.initial_state(len(batch.tokens))
    for segment in batch.tokens[:, :start].split(length, dim=1):
        state = model(segment, state).state
    changed: Any = Resumed(model, state.with_memory(change(state.memory)))
    return generate(changed, batch.tokens[:, start:], batch.loss_mask[:, start:], length)


def effects(model: Any, batch: Batch, length: int, before: int) -> dict[str, Effect]:
    """What each change of the memory does to the answers that come after it."""
    start, effect_of = before * length, dict[str, Effect]()
    answer, targets = batch.answer[:, start:], batch.targets[:, start:]
    for name, change in CHANGES.items():
        predicted = intervene(model, batch, length, change, before)
        right = (predicted == wanted for wanted in (targets, targets.roll(1, 0)))
        effect_of[name] = Effect(*(float(matches[answer].double().mean()) for matches in right))
    return effect_of


def memory_gradients(model: Any, segments: Sequence[Segment]) -> Tensor:
    """How strongly the loss of segment t (row) depends on the memory entering segment s (column): (S, S).

    The norm of the gradient of an input's summed loss, averaged over the batch; zero for s > t, and in the
    rows of segments without a target under the loss.
    """
    state = model.initial_state(len(segments[0].tokens))
    state = state.with_memory(state.memory.detach().requires_grad_())
    entering, norms = [], torch.zeros(len(segments), len(segments))
    for row, segment in enumerate(segments):
        entering.append(state.memory)
        output = model(segment.tokens, state)
        losses = F.cross_entropy(output.logits.transpose(1, 2), segment.targets, reduction="none")
        gradients = torch.autograd.grad(
            (losses * segment.loss_mask).sum(),
            entering,
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        norms[row, : row + 1] = torch.stack(
            [gradient.flatten(1).norm(dim=1).mean() for gradient in gradients]
        )
        state = output.state
    return norms


def reach(gradients: Tensor) -> Tensor:
    """The gradient k segments back as a share of the nearest (S,), over the segments that have one."""
    count, shares = len(gradients), []
    for distance in range(count):
        nearest = gradients.diagonal()[distance:]
        far = gradients.diagonal(-distance)
        with_loss = nearest > 0
        ratios = far[with_loss] / nearest[with_loss]
        shares.append(ratios.mean() if len(ratios) else nearest.new_zeros(()))
    return torch.stack(shares)


def horizon(gradients: Tensor) -> int:
    """The effective horizon: how many segments back the gradient never falls below a tenth of the nearest."""
    enough = reach(gradients)[1:] >= NEGLIGIBLE
    return int(enough.long().cumprod(0).sum())
