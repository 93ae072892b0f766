"""Memory tokens: how they begin, where they stand, what is carried."""

import pytest
import torch

from rmt.core.config import MemoryConfig
from rmt.core.memory import build_memory
from rmt.core.token_memory import TokenMemory

READ, WRITE = torch.full((1, 2, 4), 1.0), torch.full((1, 2, 4), 2.0)
CARRIED = {"tokens": torch.full((1, 2, 4), 7.0)}


def memory(**settings: object) -> TokenMemory:
    torch.manual_seed(0)
    return build_memory(MemoryConfig(size=2, **settings), width=4, layers=1)


@pytest.mark.parametrize(("init", "different"), [("distinct", 2), ("identical", 1)])
def test_initial_tokens_are_drawn_apart_or_all_alike(init, different):
    assert len(memory(init=init).tokens.weight.unique(dim=0)) == different


def test_the_same_memory_stands_in_front_of_the_tokens_and_behind_them():
    assert memory().read_block(CARRIED) is CARRIED["tokens"]
    assert torch.equal(memory().write_block(CARRIED), CARRIED["tokens"])


def test_without_a_write_block_nothing_stands_behind_the_tokens():
    unwritten = memory(write=False)
    assert unwritten.write_block(CARRIED).shape == (1, 0, 4)
    assert (unwritten.read_size, unwritten.write_size) == (2, 0)


def test_memory_that_is_not_recurrent_starts_every_segment_from_the_initial_tokens():
    anew = memory(write=False, recurrent=False)
    assert torch.equal(anew.read_block(CARRIED)[0], anew.tokens.weight)
    assert torch.equal(anew.read_block(anew.carry(READ, WRITE[:, :0], CARRIED))[0], anew.tokens.weight)


def test_the_write_block_is_carried_and_without_one_the_read_block():
    assert torch.equal(memory().carry(READ, WRITE, CARRIED)["tokens"], WRITE)
    assert torch.equal(memory(write=False).carry(READ, WRITE[:, :0], CARRIED)["tokens"], READ)


def test_tokens_that_an_earlier_release_saved_as_a_parameter_are_loaded():
    tokens = torch.randn(2, 4)
    loaded = memory()
    loaded.load_state_dict({"tokens": tokens})
    assert torch.equal(loaded.tokens.weight, tokens)
