"""The border of the segment model: what it refuses, and how it says so."""

from __future__ import annotations

import pytest
import torch

import rmt
from rmt.errors import ConfigError


@pytest.fixture
def model() -> rmt.SegmentModel:
    return rmt.SegmentModel(rmt.presets.rmt(memory=2, vocabulary=7, width=8, heads=2, head_width=4))


@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 4, 1)], ids=["other batch", "no batch", "too many"])
def test_tokens_that_do_not_fit_the_state_are_refused(
    model: rmt.SegmentModel, shape: tuple[int, ...]
) -> None:
    with pytest.raises(
        ConfigError, match=r"tokens of shape .* (do not fit a state of 2 rows|are not rows); give"
    ):
        model(torch.zeros(shape, dtype=torch.long), model.initial_state(2))


def test_an_unknown_padding_side_is_refused(model: rmt.SegmentModel) -> None:
    with pytest.raises(ConfigError, match="padding='middle' is not right or left"):
        model(torch.zeros(2, 4, dtype=torch.long), model.initial_state(2), torch.tensor([4, 2]), "middle")


@pytest.mark.parametrize("init", ["small", "scaled", "identity"])
def test_initial_weights_have_the_variance_their_name_says(init: str) -> None:
    torch.manual_seed(0)
    model = rmt.SegmentModel(
        rmt.presets.rmt(memory=64, vocabulary=100, width=256, inner_width=512, init=init)
    )
    layer = model.backbone.layers[0]
    for weight in (model.embedding.weight, layer.attention.qkv.weight, layer.feed_forward[0].weight):
        expected = 0.02 if init == "small" else weight.shape[1] ** -0.5
        assert weight.std().item() == pytest.approx(expected, rel=0.05)
    for weight in (layer.attention.out.weight, layer.feed_forward[3].weight):
        expected = {"small": 0.02, "scaled": weight.shape[1] ** -0.5, "identity": 0.0}[init]
        assert weight.std().item() == pytest.approx(expected, rel=0.05)
    assert model.memory.tokens.weight.std().item() == pytest.approx(1.0, rel=0.05)


def test_a_model_that_starts_as_the_identity_hands_its_memory_on_as_it_is() -> None:
    torch.manual_seed(0)
    model = rmt.SegmentModel(rmt.presets.rmt(memory=4, vocabulary=9, width=32, init="identity")).double()
    state = model.initial_state(2)
    expected = model.backbone.final_norm(state.memory)
    for _ in range(5):
        state = model(torch.randint(9, (2, 6)), state).state
        torch.testing.assert_close(state.memory, expected, rtol=1e-12, atol=1e-12)
        expected = model.backbone.final_norm(state.memory)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: rmt.MemoryConfig(init="same"), "memory.init='same' is not distinct or identical"),
        (lambda: rmt.CacheConfig(scope="al"), "cache.scope='al' is not tokens or all"),
        (lambda: rmt.ModelConfig(norm="Pre"), "model.norm='Pre' is not pre or post"),
        (lambda: rmt.ModelConfig(width="64"), "model.width='64' is not a whole number"),
        (lambda: rmt.ModelConfig(memory=8), "model.memory=8 is not a MemoryConfig"),
    ],
    ids=["memory", "cache", "choice", "type", "group"],
)
def test_a_configuration_built_by_hand_is_checked(wrong, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        wrong()


def test_a_segment_without_tokens_is_no_segment(model: rmt.SegmentModel) -> None:
    state = model.initial_state(2)
    output = model(torch.zeros(2, 0, dtype=torch.long), state)
    assert output.logits.shape == (2, 0, 7)
    assert output.state is state


@pytest.mark.parametrize("lengths", [[5, 1], [-1, 2]], ids=["too long", "negative"])
def test_lengths_that_do_not_fit_are_refused(model: rmt.SegmentModel, lengths: list[int]) -> None:
    with pytest.raises(ConfigError, match="must be 0 to 4, the length of the rows"):
        model(torch.zeros(2, 4, dtype=torch.long), model.initial_state(2), torch.tensor(lengths))


def test_the_import_of_checkpoints_is_on_the_public_page() -> None:
    assert callable(rmt.compat.lm_rmt.load)
