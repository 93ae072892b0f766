"""Kinds of memory: what each of them adds to a segment, and how the configuration names it."""

import pytest
import torch

from rmt.core.config import MEMORY_KINDS, MemoryConfig
from rmt.core.memory import LayerMemory, Memory, build_memory
from rmt.core.spans import Spans
from rmt.errors import ConfigError


def test_a_kind_adds_nothing_in_the_layers_that_it_does_not_override():
    memory, carried, hidden = (
        Memory(MemoryConfig(), width=4, layers=2),
        {"A": torch.ones(1, 4)},
        torch.ones(1, 3, 4),
    )
    assert memory.before(0, hidden, carried) is hidden
    assert memory.after(0, hidden, Spans(0, 1, 1, 1), carried) is carried
    assert memory.carry(hidden[:, :1], hidden[:, 2:], carried) is carried
    assert memory.read_block(carried).shape == memory.write_block(carried).shape == (1, 0, 4)
    assert not memory.in_layers


@pytest.mark.parametrize("kind", MEMORY_KINDS)
def test_every_kind_is_built_by_its_name(kind):
    memory = build_memory(MemoryConfig(kind=kind, size=2), width=4, layers=2)
    carried = memory.initial(3)
    assert memory.read_block(carried).shape == (3, memory.read_size, 4)
    assert memory.write_block(carried).shape == (3, memory.write_size, 4)


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown memory\.kind 'token'; did you mean 'tokens'\?"):
        MemoryConfig(kind="token")


def test_a_kind_of_ones_own_is_named_by_its_place():
    memory = build_memory(MemoryConfig(kind="tests.laws.layer_memory:LayerAverage", size=2), 4, layers=3)
    assert len(memory.initial(1)["average"]) == 3


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nowhere:Bank", "module 'nowhere' cannot be imported"),
        ("rmt.core.state:State", "'State' in module 'rmt.core.state' is not a memory"),
        ("rmt.core.state:", "'' in module 'rmt.core.state' is not a memory"),
    ],
)
def test_a_place_without_a_kind_of_memory_is_one_line(kind, message):
    with pytest.raises(ConfigError, match=rf"^memory\.kind={kind!r}: {message}.*$"):
        build_memory(MemoryConfig(kind=kind, size=2), width=4, layers=2)


def test_a_memory_is_built_with_the_parameters_that_it_draws(monkeypatch):
    monkeypatch.setattr(Memory, "reset_parameters", lambda memory: drawn.append(type(memory)))
    drawn = []
    memory = build_memory(MemoryConfig(kind="tests.laws.layer_memory:LayerAverage", size=2), 4, layers=2)
    assert drawn == [type(memory)]


def test_layers_see_what_the_segment_started_from_and_change_what_it_leaves():
    class Counting(Memory):
        def before(self, layer, hidden, carried):
            return hidden + carried["n"]

        def after(self, layer, hidden, spans, carried):
            return {"n": carried["n"] + spans.write}

    layers = LayerMemory(Counting(MemoryConfig(), 4, 2), {"n": 1}, Spans(0, 0, 3, 2))
    assert Counting(MemoryConfig(), 4, 2).in_layers
    for layer in range(2):
        assert (layers.before(layer, torch.zeros(1, 5, 4)) == 1).all()
        layers.after(layer, torch.zeros(1, 5, 4))
    assert layers.leaving == {"n": 5}


def test_layers_learn_nothing_from_a_piece_without_its_write_block():
    class Failing(Memory):
        def after(self, layer, hidden, spans, carried):
            raise AssertionError

    layers = LayerMemory(Failing(MemoryConfig(), 4, 2), {"n": 1}, Spans(0, 0, 5, 0))
    layers.after(0, torch.zeros(1, 5, 4))
    assert layers.leaving == {"n": 1}


class Unfinished(Memory):
    """A kind that does not say what the first segment starts from."""


def test_a_kind_without_a_beginning_is_unfinished():
    kind = f"{__name__}:Unfinished"
    said = rf"memory\.kind='{kind}': class 'Unfinished' is unfinished; define: initial"
    with pytest.raises(ConfigError, match=said):
        build_memory(MemoryConfig(kind=kind, size=2), 4, layers=1)


def test_more_memory_than_there_can_be_is_refused():
    with pytest.raises(ConfigError, match=r"memory\.size=99999999999 must be 0 to 1048576"):
        MemoryConfig(size=99_999_999_999)
