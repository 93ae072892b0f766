"""Mixed precision: what goes into a model and what comes out of it."""

import torch

from rmt import SegmentModel, presets
from rmt.train.mixed import mixed
from rmt.train.processes import Processes

# B batch · L tokens


def model_and_call(precision="bf16-mixed"):
    torch.manual_seed(0)
    model = SegmentModel(
        presets.rmt(2, vocabulary=7, layers=1, heads=1, head_width=4, width=8, inner_width=8)
    )
    return model, mixed(model, Processes(torch.device("cpu"), precision))


def test_states_go_in_rounded_and_outputs_come_out_in_float32():
    model, call = model_and_call()
    state, seen = model.initial_state(2), []
    model.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    output = call(torch.zeros(2, 3, dtype=torch.long), state)
    tokens, given = seen
    assert tokens.dtype == torch.long
    assert torch.equal(given.memory, state.memory.bfloat16())
    assert given.cached.dtype == torch.long
    assert {tensor.dtype for tensor in (output.logits, output.state.memory)} == {torch.float32}


def test_products_are_in_bfloat16():
    model, call = model_and_call()
    tokens, state = torch.zeros(2, 3, dtype=torch.long), model.initial_state(2)
    logits = call(tokens, state).logits
    assert torch.equal(logits, logits.bfloat16().float())
    assert not torch.equal(logits, model(tokens, state).logits)


def test_the_gradient_reaches_what_was_rounded():
    model, call = model_and_call()
    call(torch.zeros(2, 3, dtype=torch.long), model.initial_state(2)).logits.sum().backward()
    assert model.memory.tokens.weight.grad.dtype == torch.float32
    assert model.memory.tokens.weight.grad.abs().sum() > 0
