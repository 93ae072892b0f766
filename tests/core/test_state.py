"""The state between two segments: a value that can be cut, mixed row by row, and weighed."""

import torch
from torch import Tensor

from rmt import State, presets
from rmt.core.model import SegmentModel

BATCH, MEMORY, CACHE, LAYERS, WIDTH = 3, 2, 4, 2, 6


def random_state(seed: int) -> State:
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int) -> Tensor:
        return torch.randn(BATCH, rows, WIDTH, generator=generator, dtype=torch.float64)

    cached = torch.arange(BATCH) + 2 * seed
    return State(normal(MEMORY).requires_grad_(), tuple(normal(CACHE) for _ in range(LAYERS)), cached)


def test_where_takes_whole_rows_from_one_state_or_the_other():
    mine, yours = random_state(0), random_state(1)
    mixed = mine.where(torch.tensor([True, False, True]), yours)
    for row, source in enumerate([mine, yours, mine]):
        assert torch.equal(mixed.memory[row], source.memory[row])
        assert all(torch.equal(a[row], b[row]) for a, b in zip(mixed.cache, source.cache, strict=True))
        assert mixed.cached[row] == source.cached[row]


def test_where_sends_the_gradient_of_a_row_to_the_state_it_came_from():
    mine, yours = random_state(0), random_state(1)
    mine.where(torch.tensor([True, False, True]), yours).memory.sum().backward()
    assert mine.memory.grad[:, 0, 0].tolist() == [1, 0, 1]
    assert yours.memory.grad[:, 0, 0].tolist() == [0, 1, 0]


def test_detach_cuts_memory_and_keeps_every_value():
    state = random_state(0)
    cut = state.detach()
    assert state.memory.requires_grad
    assert not cut.memory.requires_grad
    assert torch.equal(cut.memory, state.memory)
    assert cut.cache is state.cache
    assert cut.cached is state.cached


def test_nbytes_counts_memory_and_the_cache_of_every_layer():
    assert random_state(0).nbytes == 8 * BATCH * WIDTH * (MEMORY + LAYERS * CACHE)


def test_nbytes_does_not_grow_with_the_number_of_segments():
    config = presets.transformer_xl_rmt(
        MEMORY, CACHE, vocabulary=5, layers=LAYERS, heads=1, head_width=4, width=WIDTH, inner_width=4
    )
    model, tokens = SegmentModel(config), torch.tensor([[1, 2, 3]])
    state = model.initial_state(1)
    weights = {state.nbytes}
    for _ in range(3):
        state = model(tokens, state).state
        weights.add(state.nbytes)
    assert weights == {4 * WIDTH * (MEMORY + LAYERS * CACHE)}
