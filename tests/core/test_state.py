"""The state between two segments: a value that can be cut, mixed row by row, and weighed."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from rmt import State, presets
from rmt.core.model import SegmentModel
from rmt.errors import ConfigError
from tests.laws.models import assert_same_state, build, configuration, random_segments, run

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


def layered_state(seed: int, batch: int = LAYERS) -> State:
    """What a memory in the layers may carry: a tensor whose second axis is as long as its first, and more."""
    generator = torch.Generator().manual_seed(seed)
    carried = {
        "stacked": torch.randn(batch, LAYERS, 2, WIDTH, generator=generator),
        "A": tuple(torch.randn(batch, 2, WIDTH, generator=generator) for _ in range(LAYERS)),
        "used": torch.arange(batch) + 10 * seed,
    }
    return State(carried, (), torch.zeros(batch, dtype=torch.long))


def test_where_keeps_rows_apart_although_a_memory_has_a_layer_axis_as_long_as_its_batch():
    mine, yours = layered_state(0), layered_state(1)
    mixed = mine.where(torch.tensor([True, False]), yours)
    for row, source in enumerate([mine, yours]):
        assert torch.equal(mixed.carried["stacked"][row], source.carried["stacked"][row])
        assert mixed.carried["used"][row] == source.carried["used"][row]
        for layer in range(LAYERS):
            assert torch.equal(mixed.carried["A"][layer][row], source.carried["A"][layer][row])


def test_a_state_comes_back_from_its_tensors_in_a_row():
    for state in (random_state(0), layered_state(0)):
        again = state.unflatten(state.flat())
        assert again.named().keys() == state.named().keys()
        assert all(torch.equal(again.named()[name], tensor) for name, tensor in state.named().items())
        assert len(state.named()) == len(state.flat())


def test_names_in_files_are_those_of_earlier_releases_for_tokens():
    assert list(random_state(0).named()) == ["memory", "cached", "cache.0", "cache.1"]
    assert list(layered_state(0).named()) == [
        "memory.stacked",
        "memory.A.0",
        "memory.A.1",
        "memory.used",
        "cached",
    ]


def test_a_state_can_be_made_of_memory_tokens_alone():
    tokens = torch.ones(3, 2, 4)
    for state in (State(memory=tokens), State(tokens), State({"tokens": tokens})):
        assert state.memory is tokens
        assert state.cached.tolist() == [0, 0, 0]
        assert state.cache == ()


def test_memory_is_the_tokens_and_nothing_else():
    state = layered_state(0)
    with pytest.raises(ConfigError, match=r"has no tokens: state\.carried has stacked, A, used"):
        state.memory  # noqa: B018
    with pytest.raises(AttributeError):
        random_state(0).memory = torch.ones(1)
    with pytest.raises(ConfigError, match="either memory=tokens"):
        State()


@pytest.mark.parametrize(
    "kind",
    [
        "transformer_xl_rmt",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("rmt", "memory_in_layers", "associative_memory")
        ),
    ],
)
@torch.no_grad()
def test_a_compiled_model_takes_and_gives_states(kind):
    model, segments = build(configuration(kind)).float(), random_segments()
    plain = run(model, segments)
    model.compile(backend="eager", fullgraph=True)
    for compiled, expected in zip(run(model, segments), plain, strict=True):
        assert isinstance(compiled.state, State)
        assert_same_state(compiled.state, expected.state)
        torch.testing.assert_close(compiled.logits, expected.logits)


def test_a_state_is_a_tree_to_torch_also_while_its_leaves_are_taken_out():
    leaves, form = tree_flatten(random_state(0))
    assert len(leaves) == 2 + LAYERS
    empty = tree_unflatten([None] * len(leaves), form)
    assert (empty.carried, empty.cached) == ({"tokens": None}, None)
    assert isinstance(tree_unflatten(leaves, form), State)


def test_with_memory_replaces_the_tokens_only():
    state, tokens = random_state(0), torch.zeros(BATCH, MEMORY, WIDTH)
    for other in (state.with_memory(tokens), state._replace(memory=tokens)):
        assert isinstance(other, State)
        assert other.memory is tokens
        assert other.cache is state.cache


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
