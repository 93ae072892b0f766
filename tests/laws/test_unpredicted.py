"""A segment from which nothing is predicted costs less and hands on the same state and the same gradient."""

import pytest
import torch

from rmt import Output, SegmentModel
from rmt.errors import ConfigError
from tests.laws.models import (
    MEMORY,
    assert_same,
    build,
    configuration,
    functional,
    gradients,
    over,
    random_segments,
)


@over()
def test_a_segment_that_predicts_nothing_leaves_the_same_state(config):
    said, unsaid = (encode(build(config), predict) for predict in (True, False))
    assert_same(unsaid[1].state, said[1].state, tolerance=1e-13)
    assert unsaid[1].logits.shape[1] == 0


@over()
def test_what_follows_has_the_same_gradient(config):
    found = []
    for predict in (True, False):
        model = build(config)
        found.append(gradients(functional(encode(model, predict)[-1].logits), model))
    assert any(gradient.any() for gradient in found[0].values())
    assert_same(found[1], found[0], tolerance=1e-12)


def encode(model: SegmentModel, predict: bool) -> list[Output]:
    """Three segments, the first two with or without predictions."""
    state, outputs = model.initial_state(2), []
    for place, segment in enumerate(random_segments()):
        outputs.append(model(segment, state, predict=predict or place == 2))
        state = outputs[-1].state
    return outputs


def test_the_last_layer_makes_no_row_that_is_not_needed():
    model, rows = build(configuration("rmt")), []
    model.backbone.layers[-1].feed_forward.register_forward_hook(
        lambda _, inputs, __: rows.append(inputs[0].shape[1])
    )
    with torch.no_grad():
        encode(model, predict=False)
    assert rows[:2] == [MEMORY, MEMORY]
    assert rows[2] > MEMORY


def test_targets_of_what_is_not_predicted_are_refused():
    model, (tokens, *_) = build(configuration("rmt")), random_segments()
    with pytest.raises(ConfigError, match=r"targets .* predict=False; leave one of them out"):
        model(tokens, model.initial_state(2), targets=tokens, predict=False)
