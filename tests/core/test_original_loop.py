"""`replay_from: latest` against the loop of the original language model code, as it is written there."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rmt import Output, SegmentModel, State
from rmt.core.bptt import Plan, replay, windows
from tests.laws.models import assert_same, assert_same_gradients, build, configuration, functional, gradients

SEGMENTS, BATCH, LENGTH, RATE = 7, 2, 4, 1e-3
MODELS = {
    "cache-0": configuration("rmt"),
    "cache-6": configuration("transformer_xl_rmt", cache=6),
    "cache-6-of-all": configuration("cache_of_all_positions", cache=6),  # as the original caches
    "cache-6-seen-by-memory": configuration("memory_sees_cache", cache=6),
}


class Learned(NamedTuple):
    """What one update learned from."""

    loss: Tensor
    gradients: dict[str, Tensor]


@pytest.mark.covering
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_latest_makes_the_losses_and_gradients_of_the_original_loop(name, depth):
    ours, original = (build(MODELS[name]) for _ in range(2))
    updates, expected = updates_of(ours, depth), original_updates(original, depth)
    assert len(updates) == len(expected) == SEGMENTS
    for update, wanted in zip(updates, expected, strict=True):
        assert_same(update.loss, wanted.loss)
        assert_same_gradients(update.gradients, wanted.gradients)


def updates_of(model: SegmentModel, depth: int) -> list[Learned]:
    """An update per segment, as `bptt.schedule=sliding` with `replay_from=latest` makes them."""
    plan = Plan(windows([1] * SEGMENTS, depth, "sliding"), "latest")
    steps = replay(model, segments(), {0: model.initial_state(BATCH)}, loss_of, plan)
    return [learn(model, loss) for _, loss in steps]


def original_updates(model: SegmentModel, depth: int) -> list[Learned]:
    """`train()` in pytorch/train.py of LM-RMT, lines 453–524, with a segment model for `para_model`.

    Its names are kept. `mems` are a cache and how many of its rows are valid. Line 495 should restore the
    memory of `depth` segments ago, and sets an attribute of a tensor that nobody looks at.
    """
    empty = model.empty_state(BATCH)
    mems = (empty.cache, empty.cached)
    mem_tokens = None
    prev_data, prev_mems, prev_mem_tokens = [], [], []
    updates = []
    for batch, data in enumerate(segments()):
        mem_tokens = model.initial_state(BATCH).memory if mem_tokens is None else mem_tokens.detach()
        if depth > 0:
            prev_data = [*prev_data[-depth:], data]
            prev_mems = [*prev_mems[-depth:], mems]
            prev_mem_tokens = [*prev_mem_tokens[-depth:], mem_tokens.detach()]
            mem_tokens.values = prev_mem_tokens[0].clone()
            for pd, pm in zip(prev_data[:-1], prev_mems[:-1], strict=True):
                mem_tokens, mems, _ = para_model(model, pd, pm, mem_tokens)
        mem_tokens, mems, output = para_model(model, data, mems, mem_tokens)
        updates.append(learn(model, loss_of(batch, output)))
    return updates


def para_model(
    model: SegmentModel, data: Tensor, mems: tuple[tuple[Tensor, ...], Tensor], mem_tokens: Tensor
) -> tuple[Tensor, tuple[tuple[Tensor, ...], Tensor], Output]:
    """One segment, in the order in which the original hands its state around."""
    cache, cached = mems
    output = model(data, State(memory=mem_tokens, cache=cache, cached=cached))
    return output.state.memory, (output.state.cache, output.state.cached), output


def segments() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return list(torch.randint(12, (SEGMENTS, BATCH, LENGTH), generator=generator).unbind(0))


def loss_of(index: int, output: Output) -> Tensor:
    return functional(output.logits) * (index + 1)


def learn(model: SegmentModel, loss: Tensor) -> Learned:
    """One step of gradient descent, and what it was made of."""
    learned = Learned(loss.detach(), gradients(loss, model))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter -= RATE * learned.gradients[name]
    return learned
