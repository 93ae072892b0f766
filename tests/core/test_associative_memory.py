"""Associative memory: what is written under a key is found under it, and nothing grows without bounds."""

import pytest
import torch
from torch import Tensor

from rmt.core.associative_memory import features, normalised
from rmt.core.config import MemoryConfig
from rmt.core.memory import Memory, build_memory
from rmt.core.model import SegmentModel
from rmt.core.spans import Spans
from rmt.errors import ConfigError
from tests.laws.models import assert_same, build, configuration, random_segments, run

WIDTH, LAYERS = 6, 2


def associative(size: int = 3) -> Memory:
    """A memory whose parameters are all drawn at random."""
    memory = build_memory(MemoryConfig(kind="associative", size=size), WIDTH, LAYERS)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in memory.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return memory


def write(memory: Memory, states: Tensor, carried: dict, layer: int = 1) -> dict:
    """What is carried after a layer whose write block has these states (B, W, D)."""
    return memory.after(layer, states, Spans(0, 0, 0, states.shape[1]), carried)


def random_states(size: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(2, size, WIDTH, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("segments", [1, 3])
@torch.no_grad()
def test_writing_is_the_delta_rule_token_by_token(segments):
    memory = associative()
    carried = memory.initial(2)
    expected = torch.zeros_like(carried["A"][1])
    for segment in range(segments):
        states = random_states(seed=segment)
        carried = write(memory, states, carried)
        for row in range(2):
            matrix, values = expected[row].clone(), normalised(states[row])
            keys = features(values @ memory.key[1])
            for key, value in zip(keys, values, strict=True):
                strength = torch.sigmoid(value @ memory.strength[1]) / sum(key @ other for other in keys)
                expected[row] += torch.outer(key, strength * (value - key @ matrix))
    assert_same(carried["A"][1], expected)
    assert not carried["A"][0].any()  # of the other layer


@torch.no_grad()
def test_a_key_holds_the_last_value_that_was_written_under_it():
    memory, key = associative(size=1), torch.zeros(WIDTH, 6)
    key[0, 0] = 1.0  # the first number of a state is its key
    memory.key[1], memory.query[1], memory.gate[1] = key, key, torch.ones(WIDTH)
    memory.strength[1] = torch.tensor([50.0, *[0.0] * (WIDTH - 1)])  # written whole
    carried = memory.initial(2)
    for seed in range(3):
        states = random_states(size=1, seed=seed).abs()
        carried = write(memory, states, carried)
    assert_same(memory.before(1, states, carried) - states, normalised(states), 1e-9)


@torch.no_grad()
def test_a_thousand_segments_of_like_keys_do_not_grow_beyond_what_was_written():
    memory = associative(size=3)
    memory.strength.zero_()
    memory.strength[1, 0] = 50.0
    carried = memory.initial(2)
    for seed in range(1000):
        states = random_states(seed=seed).abs() if seed % 2 else random_states(seed=seed) * 1e3
        carried = write(memory, states, carried)
    assert carried["A"][1].norm(dim=(1, 2)).max() < 10 * WIDTH**0.5


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_new_model_is_the_one_without_memory_segment_by_segment(norm):
    plain = build(configuration("baseline", norm=norm))
    model = SegmentModel(configuration("associative_memory", norm=norm)).eval()
    weights = {name: tensor for name, tensor in plain.state_dict().items() if "memory" not in name}
    model.load_state_dict(weights, strict=False)
    for output, expected in zip(run(model, random_segments()), run(plain, random_segments()), strict=True):
        assert_same(output.logits, expected.logits)


def test_a_model_of_half_precision_remembers_in_float32():
    memory = associative().to(torch.bfloat16)
    carried = write(memory, random_states().to(torch.bfloat16), memory.initial(2))
    assert {matrix.dtype for matrix in carried["A"]} == {torch.float32}
    assert memory.before(1, random_states().to(torch.bfloat16), carried).dtype == torch.bfloat16


def test_memory_in_float32_remembers_what_a_model_of_half_precision_gives_it():
    memory, states = associative().float(), random_states().to(torch.bfloat16)
    carried = write(memory, states, memory.initial(2))
    after = memory.before(1, states, carried)
    assert {matrix.dtype for matrix in carried["A"]} == {torch.float32}
    assert after.dtype == torch.bfloat16
    exact = write(memory, states.float(), memory.initial(2))
    torch.testing.assert_close(carried["A"][1], exact["A"][1], rtol=0.02, atol=0.02)
    assert not torch.equal(after, states)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"size": 0},
            r"memory\.size=0 would remember nothing; choose at least 1, or use memory\.kind='tokens'",
        ),
        ({"size": 2, "write": False}, r"memory\.write=False would remember nothing; switch it on"),
        ({"size": 2, "write": False, "recurrent": False}, r"memory\.write=False would remember nothing"),
    ],
)
def test_settings_by_which_nothing_is_remembered_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        build_memory(MemoryConfig(kind="associative", **settings), WIDTH, LAYERS)
