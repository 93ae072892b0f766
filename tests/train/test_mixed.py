"""Mixed precision: what goes into a model and what comes out of it."""

from dataclasses import replace

import pytest
import torch

from rmt import SegmentModel, presets
from rmt.core.tree import tree_items
from rmt.train.mixed import mixed
from rmt.train.processes import Processes

# B batch · L tokens


def model_and_call(precision="bf16-mixed"):
    torch.manual_seed(0)
    model = SegmentModel(
        presets.rmt(2, vocabulary=7, layers=1, heads=1, head_width=4, width=8, inner_width=8)
    )
    return model, mixed(model, Processes(torch.device("cpu"), precision))


def test_tokens_and_states_go_in_as_they_are_and_outputs_come_out_in_float32():
    model, call = model_and_call()
    state, seen = model.initial_state(2), []
    model.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    output = call(torch.zeros(2, 3, dtype=torch.long), state)
    tokens, given = seen
    assert tokens.dtype == torch.long
    assert given is state
    assert {tensor.dtype for tensor in (output.logits, output.state.memory)} == {torch.float32}


@pytest.mark.parametrize("kind", ["tokens", "associative"])
def test_training_carries_what_evaluation_carries(kind):
    """Small corrections add up over segments, so what is carried must not be rounded in between."""
    torch.manual_seed(0)
    config = presets.rmt(2, vocabulary=7, layers=2, heads=2, head_width=4, width=8, inner_width=8)
    model = SegmentModel(replace(config, memory=replace(config.memory, kind=kind)))
    processes = Processes(torch.device("cpu"), "bf16-mixed")
    call, training = mixed(model, processes), model.initial_state(2)
    evaluated = training
    for segment in torch.randint(7, (2, 150)).split(3, dim=1):
        training = call(segment, training).state
        with processes.autocast():
            evaluated = model(segment, evaluated).state.with_dtypes_of(evaluated)
    for (_, ours), (_, theirs) in zip(
        tree_items(training.carried), tree_items(evaluated.carried), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_products_are_in_bfloat16():
    model, call = model_and_call()
    tokens, state = torch.zeros(2, 3, dtype=torch.long), model.initial_state(2)
    logits = call(tokens, state).logits
    assert torch.equal(logits, logits.bfloat16().float())
    assert not torch.equal(logits, model(tokens, state).logits)


def test_the_gradient_reaches_what_was_carried():
    model, call = model_and_call()
    call(torch.zeros(2, 3, dtype=torch.long), model.initial_state(2)).logits.sum().backward()
    assert model.memory.tokens.weight.grad.dtype == torch.float32
    assert model.memory.tokens.weight.grad.abs().sum() > 0
