"""Probes find what was put there: symbols in slots, answers that hang on memory, gradients that decay."""

import pytest
import torch
from torch.nn import functional as F

from rmt import State
from rmt.analysis.probes import (
    ablated,
    decode,
    effects,
    horizon,
    intervene,
    memories,
    memory_gradients,
    reach,
    shuffled,
    swapped,
    untouched,
)
from rmt.errors import ConfigError
from rmt.evaluate.generate import generate
from rmt.tasks.segments import Segment, segment
from rmt.tasks.task import Batch
from tests.laws.models import LENGTH, PRESETS, assert_same, build, configuration, random_tokens

SYMBOLS = 5


def planted(inputs: int = 200, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory of 3 slots over 2 segments: the first holds place 0 in slot 1; the second nothing but noise."""
    generator = torch.Generator().manual_seed(0)
    symbols = torch.randint(SYMBOLS, (inputs, 2), generator=generator)
    memory = noise * torch.randn(2, inputs, 3, 8, generator=generator)
    memory[0, :, 1, :SYMBOLS] += F.one_hot(symbols[:, 0], SYMBOLS)
    return memory, symbols


def test_decoding_finds_a_symbol_in_the_slot_that_holds_it_and_nowhere_else():
    decoded = decode(*planted())
    assert (decoded.slots.shape, decoded.whole.shape) == ((2, 3, 2), (2, 2))
    assert decoded.slots[0, 1, 0] == 1
    assert decoded.whole[0, 0] == 1
    elsewhere = decoded.slots.clone()
    elsewhere[0, 1, 0] = 0
    assert elsewhere.max() < 0.4
    assert decoded.whole[1].max() < 0.4
    assert 1 / SYMBOLS <= decoded.chance < 0.35


def test_decoding_is_measured_on_inputs_it_has_not_seen():
    memory, symbols = planted(inputs=12)  # more inputs to the map than examples: it fits any noise
    assert decode(memory, symbols).whole[1].max() < 0.9


def test_decoding_needs_inputs():
    with pytest.raises(ConfigError, match="at least 4"):
        decode(torch.zeros(1, 2, 1, 1), torch.zeros(2, 1, dtype=torch.long))


def test_memories_are_the_states_between_segments():
    model, tokens = build(configuration("rmt")), random_tokens(2, 11)
    state, expected = model.initial_state(2), []
    for part in tokens.split(LENGTH, dim=1):
        state = model(part, state).state
        expected.append(state.memory)
    assert_same(memories(model, tokens, LENGTH), torch.stack(expected))


def question(rows: int = 6, total: int = 11, start: int = LENGTH) -> Batch:
    tokens = random_tokens(rows, total + 1)
    mask = (torch.arange(total) >= start).expand(rows, -1)
    return Batch(tokens[:, :-1], tokens[:, 1:], mask, mask)


@pytest.mark.parametrize("kind", PRESETS)
def test_untouched_memory_changes_nothing(kind):
    model, batch = build(configuration(kind)), question()
    found = intervene(model, batch, LENGTH, untouched, before=1)
    assert torch.equal(found, generate(model, batch.tokens, batch.loss_mask, LENGTH)[:, LENGTH:])


def test_swapped_memory_is_the_memory_of_the_input_before():
    model, batch = build(configuration("rmt")), question()
    swap = intervene(model, batch, LENGTH, swapped, before=2)
    by_hand = batch._replace(tokens=torch.cat([batch.tokens.roll(1, 0)[:, :8], batch.tokens[:, 8:]], dim=1))
    assert torch.equal(swap, intervene(model, by_hand, LENGTH, untouched, before=2))
    assert not torch.equal(swap, intervene(model, batch, LENGTH, untouched, before=2))


def test_changes_do_what_they_are_called():
    memory = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0))
    assert_same(ablated(memory), memory.mean(0).expand(4, -1, -1))
    assert torch.equal(swapped(memory)[1:], memory[:-1])
    mixed = shuffled(memory)
    assert not torch.equal(mixed, memory)
    assert_same(mixed.sort(dim=1).values, memory.sort(dim=1).values)
    assert torch.equal(shuffled(memory), mixed)


class Recorder:
    """Remembers its one-hot input in one slot per place and answers with it: what a perfect copy does."""

    def initial_state(self, batch):
        return State(torch.zeros(batch, 3, SYMBOLS), (), torch.zeros(batch))

    def __call__(self, tokens, state):
        output = type("Output", (), {"state": state.with_memory(F.one_hot(tokens, SYMBOLS).double())})
        return output

    def open(self, state, room):
        class Opened:
            place = 0

            def step(self, tokens):
                first, self.place = self.place, self.place + tokens.shape[1]
                return state.memory[:, first : self.place]

            def close(self):
                return state

        return Opened()


def test_effects_of_a_perfect_memory_are_what_they_must_be():
    source = torch.tensor([[0, 1, 2], [3, 4, 0], [2, 3, 1], [4, 0, 3]])
    tokens = torch.cat([source, torch.zeros(4, 1, dtype=torch.long), source[:, :2]], dim=1)
    mask = (torch.arange(6) >= 3).expand(4, -1)
    targets = torch.cat([source, source], dim=1)
    found = effects(Recorder(), Batch(tokens, targets, mask, mask), 3, before=1)
    assert (found["untouched"].input, found["swapped"].previous_input) == (1, 1)
    assert found["swapped"].input < 0.5
    assert found["shuffled"].input < 0.8
    assert found["ablated"].input < 0.8


@pytest.mark.parametrize("before", [0, 3])
def test_a_change_happens_at_a_border(before):
    with pytest.raises(ConfigError, match=f"before={before} is not a border"):
        intervene(build(configuration("rmt")), question(), LENGTH, untouched, before)


class Decay:
    """memory' = factor · memory, logits = memory: the gradient shrinks by the factor at every border."""

    def __init__(self, factor):
        self.factor = factor

    def initial_state(self, batch):
        return State(torch.ones(batch, 1, 3), (), torch.zeros(batch))

    def __call__(self, tokens, state):
        # the slope of the loss is kept at one: the gradient of the memory alone is left
        logits = state.memory.expand(-1, tokens.shape[1], -1)
        logits = logits - logits.detach() + torch.tensor([0.0, 1.0, 2.0])
        return type("Output", (), {"logits": logits, "state": state.with_memory(self.factor * state.memory)})


def asked(count: int) -> list[Segment]:
    tokens = torch.zeros(2, 1, dtype=torch.long)
    return [Segment(tokens, tokens, torch.ones(2, 1, dtype=torch.bool))] * count


@pytest.mark.parametrize(("factor", "expected"), [(0.5, 3), (0.05, 0), (1.0, 5), (2.0, 5)])
def test_gradients_decay_as_the_memory_does_and_the_horizon_follows(factor, expected):
    found = memory_gradients(Decay(factor), asked(6))
    assert torch.equal(found, found.tril())
    assert_same(found / found[0, 0], torch.tril(factor ** (torch.arange(6.0)[:, None] - torch.arange(6.0))))
    assert_same(reach(found), factor ** torch.arange(6.0))
    assert horizon(found) == expected


def test_a_horizon_ends_where_the_gradient_first_fails():
    gap = torch.tensor([[1.0, 0, 0], [0.01, 1, 0], [1, 0.01, 1]])
    assert horizon(gap) == 0


def test_segments_without_targets_have_no_gradient_and_do_not_count():
    silent, loud = asked(2)
    silent = silent._replace(loss_mask=torch.zeros(2, 1, dtype=torch.bool))
    found = memory_gradients(Decay(0.5), [silent, silent, loud])
    assert not found[:2].any()
    assert_same(reach(found), torch.tensor([1, 0.5, 0.25]))


@pytest.mark.parametrize("kind", PRESETS)
def test_gradients_flow_through_memory_and_nowhere_else(kind):
    model = build(configuration(kind))
    found = memory_gradients(model, segment(question(total=12), 3))
    carries = kind in ("rmt", "transformer_xl_rmt")
    assert bool(found[2, 1] > 0) == carries
    assert bool(found[2, 0] > 0) == carries
