"""Gradients of the engine are the caller's: they add up, and one update does not write into another's."""

import pytest
import torch

from rmt import MemoryConfig, ModelConfig, SegmentModel
from rmt.errors import RMTError
from rmt.gpu.engine import Engine

CONFIG = ModelConfig(
    vocabulary=12, layers=2, heads=2, head_width=16, width=32, inner_width=64, memory=MemoryConfig(size=4)
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return SegmentModel(CONFIG).double()


def update(engine, tokens):
    """One update's gradients, added to what parameters have."""
    engine.begin()
    state = engine.model.initial_state(len(tokens))
    engine.model(tokens, state, targets=tokens).losses.sum().backward()
    engine.deliver()


def gradients(model):
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("cleared", [False, True], ids=["added up", "set to zero"])
def test_a_second_update_adds_to_the_first_ones_gradients(model, cleared):
    engine = Engine(model, torch.float64)
    first, second = torch.randint(12, (2, 3, 5))
    alone = []
    for tokens in (first, second):
        model.zero_grad(set_to_none=True)
        update(engine, tokens)
        alone.append(gradients(model))
    model.zero_grad(set_to_none=True)
    update(engine, first)
    if cleared:
        model.zero_grad(set_to_none=False)
    update(engine, second)
    for name, gradient in gradients(model).items():
        expected = alone[1][name] + (0 if cleared else alone[0][name])
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12, msg=name)


def test_a_segment_is_differentiated_once_and_says_so(model):
    engine = Engine(model, torch.float64)
    tokens = torch.randint(12, (3, 5))
    engine.begin()
    loss = engine.model(tokens, engine.model.initial_state(3), targets=tokens).losses.sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RMTError, match="this segment has no records: it was differentiated before"):
        loss.backward()
