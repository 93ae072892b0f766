"""Optimizers of torch without its compiler: the same steps, the same files."""

import subprocess
import sys
from copy import deepcopy

import pytest
import torch
from torch import nn

from rmt.train import eager

PAIRS = {"adam": (eager.Adam, torch.optim.Adam), "adamw": (eager.AdamW, torch.optim.AdamW)}
both = pytest.mark.parametrize(("mine", "theirs"), PAIRS.values(), ids=PAIRS.keys())


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (4,), ())]


def step(optimizer: torch.optim.Optimizer, number: int) -> None:
    generator = torch.Generator().manual_seed(number)
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()
    optimizer.zero_grad()


def equal(mine: torch.optim.Optimizer, theirs: torch.optim.Optimizer) -> bool:
    columns = (optimizer.param_groups[0]["params"] for optimizer in (mine, theirs))
    return all(torch.equal(*pair) for pair in zip(*columns, strict=True))


@both
def test_steps_have_the_bits_of_torch_s_own(mine, theirs):
    optimizers = [kind(parameters(), lr=0.1, weight_decay=0.2) for kind in (mine, theirs)]
    for number in range(3):
        for optimizer in optimizers:
            step(optimizer, number)
    assert equal(*optimizers)
    assert all(parameter.grad is None for parameter in optimizers[0].param_groups[0]["params"])


@both
@pytest.mark.parametrize("turned", [False, True], ids=["theirs-to-mine", "mine-to-theirs"])
def test_states_go_from_one_to_the_other(mine, theirs, turned):
    kinds = (theirs, mine) if turned else (mine, theirs)
    new, old = (kind(parameters(), lr=0.1) for kind in kinds)
    step(old, 0)
    with torch.no_grad():
        for target, source in zip(new.param_groups[0]["params"], old.param_groups[0]["params"], strict=True):
            target.copy_(source)
    new.load_state_dict(deepcopy(old.state_dict()))
    for optimizer in (new, old):
        step(optimizer, 1)
    assert equal(new, old)


@both
def test_hooks_around_a_step_are_called(mine, theirs):
    optimizer, called = mine(parameters()), []
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    step(optimizer, 0)
    assert called == ["before", "after"]
    assert torch.is_grad_enabled()


@both
def test_what_is_no_group_of_parameters_is_refused_as_by_torch(mine, theirs):
    messages = []
    for kind in (mine, theirs):
        with pytest.raises(ValueError, match="non-leaf") as error:
            kind([parameters()[0] * 2])
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.slow  # a whole run that loads none of it is a quick test, tests/test_architecture.py
def test_the_compiler_is_not_loaded():
    code = """
import sys, torch
from rmt.train.eager import AdamW
from rmt.train.muon import Muon
for kind in (AdamW, Muon):
    weight = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = kind([weight], lr=0.1)
    weight.grad = torch.ones(2, 2)
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
