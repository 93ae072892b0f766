"""Fused attention and its naive twin, which also tells where everyone looked."""

import pytest
import torch
from torch import Tensor

from rmt import ModelConfig, Output, SegmentModel
from tests.laws.models import (
    HEADS,
    LENGTH,
    STEPPABLE,
    assert_same,
    assert_same_gradients,
    assert_same_state,
    build,
    carried,
    functional,
    gradients,
    over,
    random_segments,
)


@over()
def test_fused_attention_is_its_naive_twin(config):
    model = build(config)
    for fused, naive in zip(encode(model), encode(model, attention=True), strict=True):
        assert_same(naive.logits, fused.logits)
        assert_same_state(naive.state, fused.state)


@over()
def test_fused_attention_has_the_gradient_of_its_naive_twin(config):
    model = build(config)
    fused, naive = (
        functional(*(output.logits for output in outputs), *carried(outputs[-1].state))
        for outputs in (encode(model), encode(model, attention=True))
    )
    assert_same_gradients(gradients(fused, model), gradients(naive, model))


@pytest.mark.covering
@over(positions=STEPPABLE)
@pytest.mark.parametrize("padding", ["right", "left"])
def test_fused_attention_is_its_naive_twin_in_a_ragged_batch(config, padding):
    model, lengths = build(config), torch.tensor([1, 3])
    fused = encode(model, lengths=lengths, padding=padding)
    naive = encode(model, lengths=lengths, padding=padding, attention=True)
    for mine, twin in zip(fused, naive, strict=True):
        assert_same(twin.logits, mine.logits)
        assert_same_state(twin.state, mine.state)


@over()
def test_attention_weights_of_a_row_sum_to_one(config):
    for output in encode(build(config), attention=True):
        for weights in output.attention:
            assert_same(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))


@over()
def test_attention_weights_are_positive_where_the_paper_lets_look_and_exactly_zero_elsewhere(config):
    for number, output in enumerate(encode(build(config), attention=True)):
        expected = visible(config, earlier=number)
        for weights in output.attention:
            assert weights.shape == (2, HEADS, *expected.shape)
            assert torch.equal(weights != 0, expected.expand_as(weights))


@over(("transformer_xl_rmt",))
def test_attention_maps_are_given_only_when_asked_for(config):
    model = build(config)
    asked, unasked = encode(model, attention=True), encode(model)
    assert [len(output.attention) for output in asked] == [config.layers] * 3
    assert [output.attention for output in unasked] == [()] * 3


def encode(model: SegmentModel, **options: object) -> list[Output]:
    """Three segments from the initial state, all with the same options."""
    state, outputs = model.initial_state(2), []
    for tokens in random_segments():
        outputs.append(model(tokens, state, **options))
        state = outputs[-1].state
    return outputs


def visible(config: ModelConfig, earlier: int) -> Tensor:
    """Who sees whom (Q, K), pair by pair, in a segment that comes after `earlier` others."""
    memory = SegmentModel(config).memory
    queries = ["read"] * memory.read_size + ["token"] * LENGTH + ["write"] * memory.write_size
    cached = min(config.cache.rows, earlier * (LENGTH if config.cache.scope == "tokens" else len(queries)))
    cache = ["unfilled"] * (config.cache.rows - cached) + ["cache"] * cached
    keys = cache + queries

    def sees(i: int, j: int) -> bool:
        who, whom = keys[i], keys[j]
        if whom == "unfilled":
            return False
        if whom == "cache":
            return who == "token" or config.memory.sees_cache
        return j <= i or who == whom != "token"

    return torch.tensor([[sees(i, j) for j in range(len(keys))] for i in range(len(cache), len(keys))])
