"""Ragged batches: a row is what it would be alone, wherever and whatever its padding is."""

import pytest
import torch
from torch import Tensor

from rmt import Output, SegmentModel, State
from rmt.errors import ConfigError
from tests.laws.models import (
    LENGTH,
    STEPPABLE,
    VOCABULARY,
    assert_same,
    assert_same_gradients,
    assert_same_state,
    build,
    carried,
    functional,
    gradients,
    over,
    random_segments,
    row_of,
)

LENGTHS = torch.tensor([[4, 2, 0, 1], [1, 0, 3, 4], [3, 4, 2, 0]])  # segments × rows
ROWS = LENGTHS.shape[1]
PADDING = pytest.mark.parametrize("padding", ["right", "left"])


@pytest.mark.covering
@over(positions=STEPPABLE)
@PADDING
def test_a_row_of_a_ragged_batch_is_that_row_alone(config, padding):
    model = build(config)
    together = encode_together(model, padding)
    for row in range(ROWS):
        for number, (logits, state) in enumerate(encode_alone(model, padding, row)):
            assert_same(existing(together[number].logits, number, row, padding), logits)
            assert_same_state(row_of(together[number].state, row), state)


@pytest.mark.covering
@over(positions=STEPPABLE)
@PADDING
def test_the_gradient_of_a_ragged_batch_is_the_sum_of_its_rows_alone(config, padding):
    model = build(config)
    together, losses, expected = encode_together(model, padding), [], []
    for row in range(ROWS):
        alone = encode_alone(model, padding, row)
        expected.append(functional(*(logits for logits, _ in alone), *carried(alone[-1][1])))
        logits = [existing(output.logits, number, row, padding) for number, output in enumerate(together)]
        losses.append(functional(*logits, *carried(row_of(together[-1].state, row))))
    assert_same_gradients(gradients(sum(losses), model), gradients(sum(expected), model))


@over(("baseline", "transformer_xl_rmt", "cache_of_all_positions"), STEPPABLE)
@PADDING
def test_what_stands_in_the_padding_changes_nothing(config, padding):
    model = build(config)
    one, other = encode_together(model, padding), encode_together(model, padding, fill=5)
    for number in range(len(LENGTHS)):
        for row in range(ROWS):
            logits = (existing(outputs[number].logits, number, row, padding) for outputs in (one, other))
            assert torch.equal(*logits)
        assert_same(carried(one[number].state), carried(other[number].state), tolerance=0)
        assert_same_state(one[number].state, other[number].state)


@over(positions=STEPPABLE)
def test_a_row_of_length_zero_keeps_its_state(config):
    model, (first, second) = build(config), random_segments(count=2)
    before = model(first, model.initial_state(2)).state
    after = model(second, before, lengths=torch.tensor([0, 4])).state
    assert_same(row_of(after, 0), row_of(before, 0), tolerance=0)


@over(("rmt", "transformer_xl_rmt"), ("relative-lm-rmt",))
def test_the_original_positions_refuse_a_ragged_batch(config):
    model = build(config)
    with pytest.raises(ConfigError, match=r"relative-lm-rmt.*ragged.*use positions='relative'"):
        model(random_segments()[0], model.initial_state(2), lengths=torch.tensor([4, 2]))


@over(("baseline",), STEPPABLE)
def test_a_padding_side_that_does_not_exist_is_refused_by_name(config):
    model = build(config)
    with pytest.raises(ConfigError, match=r"padding='middle' is not right or left"):
        model(random_segments()[0], model.initial_state(2), lengths=torch.tensor([4, 2]), padding="middle")


def encode_together(model: SegmentModel, padding: str, fill: int = 0) -> list[Output]:
    """All segments as ragged batches; the padding holds the tokens that were there, moved on by `fill`."""
    state, outputs = model.initial_state(ROWS), []
    for number, tokens in enumerate(random_segments(batch=ROWS)):
        padded = (tokens + fill) % VOCABULARY
        for row in range(ROWS):
            existing(padded, number, row, padding)[:] = existing(tokens, number, row, padding)
        outputs.append(model(padded, state, lengths=LENGTHS[number], padding=padding))
        state = outputs[-1].state
    return outputs


def encode_alone(model: SegmentModel, padding: str, row: int) -> list[tuple[Tensor, State]]:
    """Logits and state after each segment of one row, without padding; a segment without tokens is none."""
    state, outputs = model.initial_state(1), []
    for number, tokens in enumerate(random_segments(batch=ROWS)):
        tokens = existing(tokens, number, row, padding)
        logits = torch.empty(1, 0, VOCABULARY)
        if tokens.shape[1]:
            logits, state = model(tokens, state)[:2]
        outputs.append((logits, state))
    return outputs


def existing(batch: Tensor, segment: int, row: int, padding: str) -> Tensor:
    """What is not padding in one row of a batch: (B, L, …) -> (1, length, …)."""
    length = int(LENGTHS[segment, row])
    place = slice(0, length) if padding == "right" else slice(LENGTH - length, LENGTH)
    return batch[row : row + 1, place]
