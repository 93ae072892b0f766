"""Memory tokens: how they begin, where they stand, what is carried."""

import pytest
import torch

from rmt.core.config import MemoryConfig
from rmt.core.memory import Memory
from rmt.core.state import State

READ, WRITE = torch.full((1, 2, 4), 1.0), torch.full((1, 2, 4), 2.0)


def memory(**settings: object) -> Memory:
    torch.manual_seed(0)
    return Memory(MemoryConfig(size=2, **settings), width=4)


def state(value: float) -> State:
    return State(torch.full((1, 2, 4), value), (), torch.tensor([0]))


@pytest.mark.parametrize(("init", "different"), [("distinct", 2), ("identical", 1)])
def test_initial_tokens_are_drawn_apart_or_all_alike(init, different):
    assert len(memory(init=init).tokens.unique(dim=0)) == different


def test_the_same_memory_stands_in_front_of_the_tokens_and_behind_them():
    wrapped = memory().wrap(torch.zeros(1, 3, 4), state(7.0))
    assert wrapped[0, :, 0].tolist() == [7, 7, 0, 0, 0, 7, 7]


def test_without_a_write_block_nothing_stands_behind_the_tokens():
    wrapped = memory(write=False).wrap(torch.zeros(1, 3, 4), state(7.0))
    assert wrapped[0, :, 0].tolist() == [7, 7, 0, 0, 0]


def test_memory_that_is_not_recurrent_starts_every_segment_from_the_initial_tokens():
    anew = memory(write=False, recurrent=False)
    assert torch.equal(anew.incoming(state(7.0))[0], anew.tokens)
    assert torch.equal(anew.carry(READ, WRITE[:, :0], state(7.0))[0], anew.tokens)


def test_the_write_block_is_carried_and_without_one_the_read_block():
    assert torch.equal(memory().carry(READ, WRITE, state(7.0)), WRITE)
    assert torch.equal(memory(write=False).carry(READ, WRITE[:, :0], state(7.0)), READ)
