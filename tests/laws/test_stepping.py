"""Stepping: a segment read piece by piece is that segment read at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor

from rmt import SegmentModel, State
from rmt.errors import ConfigError
from tests.laws.models import (
    STEPPABLE,
    assert_same,
    assert_same_gradients,
    assert_same_state,
    build,
    carried,
    configuration,
    functional,
    gradients,
    over,
    random_segments,
    random_tokens,
    row_of,
    run,
)


@pytest.mark.covering
@over(positions=STEPPABLE)
@pytest.mark.parametrize("pieces", [[1, 1, 1, 1], [1, 3]], ids=["single-tokens", "one-then-the-rest"])
def test_stepping_in_pieces_is_the_whole_segment(config, pieces):
    model, segments = build(config), random_segments()
    state = model.initial_state(2)
    for tokens, whole in zip(segments, run(model, segments), strict=True):
        logits, state = step_through(model, tokens, state, pieces)
        assert_same(logits, whole.logits)
        assert_same_state(state, whole.state)


@over(positions=STEPPABLE)
def test_the_gradient_through_stepping_is_that_of_whole_segments(config):
    model, segments = build(config), random_segments()
    state, logits = model.initial_state(2), []
    for tokens in segments:
        stepped, state = step_through(model, tokens, state, [1, 1, 2])
        logits.append(stepped)
    whole = run(model, segments)
    expected = functional(*(output.logits for output in whole), *carried(whole[-1].state))
    assert_same_gradients(gradients(functional(*logits, *carried(state)), model), gradients(expected, model))


@over(("transformer_xl", "transformer_xl_rmt", "memory_sees_cache"), STEPPABLE)
def test_stepping_from_caches_of_unequal_length_is_the_whole_segment(config):
    model, (first, second) = build(config), random_segments(count=2)
    state = model(first, model.initial_state(2), lengths=torch.tensor([1, 3])).state
    whole = model(second, state)
    logits, after = step_through(model, second, state, [1, 3])
    assert_same(logits, whole.logits)
    assert_same_state(after, whole.state)


@pytest.mark.parametrize("positions", STEPPABLE)
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(pieces=some.lists(some.integers(0, 4), min_size=1, max_size=5).filter(any))
def test_pieces_of_any_size_even_none_are_the_whole_segment(positions, pieces):
    model = build(configuration("transformer_xl_rmt", positions=positions))
    tokens, state = random_tokens(2, sum(pieces)), run(model, random_segments(count=1))[0].state
    whole = model(tokens, state)
    logits, after = step_through(model, tokens, state, pieces)
    assert_same(logits, whole.logits)
    assert_same_state(after, whole.state)


@over(positions=STEPPABLE)
def test_rows_with_fewer_tokens_step_as_the_ragged_segment(config):
    model, tokens = build(config), random_tokens(3, 5)
    state = run(model, random_segments(count=1, batch=3))[0].state
    lengths, first = torch.tensor([5, 0, 3]), torch.tensor([3, 0, 1])
    whole = model(tokens, state, lengths)
    segment = model.open(state)
    logits = segment.step(tokens[:, :3], first)
    rest = tokens.gather(1, (first[:, None] + torch.arange(2)).clamp(max=4))
    more = segment.step(rest, lengths - first)
    for row, (now, total) in enumerate(zip(first.tolist(), lengths.tolist(), strict=True)):
        assert_same(logits[row, :now], whole.logits[row, :now])
        assert_same(more[row, : total - now], whole.logits[row, now:total])
    assert_same_state(segment.close(), whole.state)


@over(positions=STEPPABLE)
def test_a_row_that_turns_over_is_in_a_new_segment_and_the_others_are_not(config):
    model, tokens = build(config), random_tokens(2, 6)
    state, turned = model.initial_state(2), torch.tensor([True, False])
    segment = model.open(state)
    segment.step(tokens[:, :3])
    after = segment.close()
    segment.turn(turned, after)
    logits = segment.step(tokens[:, 3:])
    first = run(model, [tokens[:1, :3], tokens[:1, 3:]])[-1]
    second = run(model, [tokens[1:]])[-1]
    assert_same(logits, torch.cat([first.logits, second.logits[:, 3:]]))
    state = segment.close()
    for row, alone in enumerate((first, second)):
        mine = row_of(state, row)
        assert_same_state(mine, alone.state)


@pytest.mark.parametrize("room", [0, 5], ids=["joined", "room"])
@over(positions=STEPPABLE)
@torch.no_grad()
def test_a_fork_of_a_segment_is_read_on_in_another_way(config, room):
    model, tokens = build(config), random_tokens(2, 5)
    segment = model.open(model.initial_state(2), room)
    segment.step(tokens[:, :2])
    other = segment.fork()
    changed = torch.cat([tokens[:, :2], (tokens[:, 2:] + 1) % 12], dim=1)
    for way, ids in ((other, changed), (segment, tokens)):
        whole = model(ids, model.initial_state(2))
        assert_same(way.step(ids[:, 2:]), whole.logits[:, 2:])
        assert_same_state(way.close(), whole.state)


@pytest.mark.parametrize("room", [4, 7, 9], ids=["too-little", "enough", "more"])
@over(positions=STEPPABLE)
@torch.no_grad()
def test_a_segment_with_room_for_its_tokens_is_the_whole_segment(config, room):
    model, tokens = build(config), random_tokens(2, 7)
    state = run(model, random_segments(count=1))[0].state
    whole = model(tokens, state)
    logits, after = step_through(model, tokens, state, [2, 1, 1, 3], room)
    assert_same(logits, whole.logits)
    assert_same_state(after, whole.state)


@torch.no_grad()
def test_where_there_is_room_keys_and_values_stay_where_they_are():
    model, tokens = build(configuration("rmt")), random_tokens(2, 7)
    segment = model.open(model.initial_state(2), room=7)
    places = [seen.key.data_ptr() for seen in segment.past]
    for token in tokens.split(1, dim=1):
        segment.step(token)
        assert [seen.key.data_ptr() for seen in segment.past] == places


@over(positions=STEPPABLE)
def test_closing_a_segment_without_tokens_returns_the_state_unchanged(config):
    model = build(config)
    state = run(model, random_segments(count=1))[0].state
    assert model.open(state).close() is state


@over(("baseline", "rmt", "transformer_xl_rmt"), ("relative-lm-rmt",))
def test_the_original_positions_refuse_to_be_stepped_through(config):
    model = build(config)
    with pytest.raises(ConfigError, match=r"relative-lm-rmt.*stepping.*use positions='relative'"):
        model.open(model.initial_state(1))


def step_through(
    model: SegmentModel, tokens: Tensor, state: State, pieces: list[int], room: int = 0
) -> tuple[Tensor, State]:
    """Logits and next state of a segment that is read in pieces of these sizes."""
    segment = model.open(state, room)
    logits = torch.cat([segment.step(piece) for piece in tokens.split(pieces, dim=1)], dim=1)
    return logits, segment.close()
