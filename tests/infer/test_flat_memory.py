"""Nothing is kept per token: after ten times as many tokens, a process holds the same tensors."""

import gc

import pytest
import torch

from rmt import Session
from tests.laws.models import LENGTH, build, configuration, random_tokens

ROUNDS = 2


def held() -> tuple[int, int]:
    """Tensors in this process, and their bytes; those without numbers, of other tests, do not count."""
    gc.collect()
    tensors = [value for value in gc.get_objects() if type(value) in (torch.Tensor, torch.nn.Parameter)]
    return len(tensors), sum(tensor.nbytes for tensor in tensors)


@pytest.mark.covering
@pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt"])
@pytest.mark.parametrize("size", [1, LENGTH, 3 * LENGTH + 2], ids=["tokens", "segments", "pieces"])
def test_feeding_holds_as_much_after_ten_times_as_many_tokens(kind, size):
    session = Session(build(configuration(kind)), segment_length=LENGTH)
    tokens = random_tokens(1, size)
    found = []
    for rounds in (LENGTH * ROUNDS, 9 * LENGTH * ROUNDS):  # both end with a full segment
        for _ in range(rounds):
            session.feed(tokens)
        found.append(held())
    assert found[0] == found[1]


def test_generating_holds_as_much_after_ten_times_as_many_tokens():
    session = Session(build(configuration("transformer_xl_rmt")), segment_length=LENGTH)
    session.feed([1, 2, 3, 4])
    found = []
    for count in (LENGTH * ROUNDS, 9 * LENGTH * ROUNDS):
        for token in session.generate(count, seed=0):
            del token
        found.append(held())
    assert found[0] == found[1]
