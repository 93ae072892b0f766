"""Computing segments again in the backward pass gives the gradient of keeping them."""

import pytest
import torch

from rmt import Output, SegmentModel
from tests.laws.models import (
    assert_same,
    build,
    carried,
    configuration,
    functional,
    gradients,
    over,
    random_segments,
    run,
)


@over()
def test_checkpointed_segments_are_the_segments(config):
    model = build(config)
    kept, recomputed = (run(model, random_segments(), checkpoint=again) for again in (False, True))
    assert_same(recomputed, kept, tolerance=0)


@over()
def test_checkpointed_segments_have_the_same_gradients(config):
    kept, recomputed = (gradients_of_all(build(config), again) for again in (False, True))
    assert any(gradient.any() for gradient in kept.values())
    assert_same(recomputed, kept, tolerance=1e-13)


@pytest.mark.parametrize("kind", ["rmt", "transformer_xl", "transformer_xl_rmt"])
def test_checkpointed_segments_drop_the_same_units_when_computed_again(kind):
    model = build(configuration(kind, dropout=0.4)).train()
    found = []
    for again in (False, True):
        torch.manual_seed(0)
        found.append(gradients_of_all(model, again))
    assert_same(found[1], found[0], tolerance=1e-13)


@pytest.mark.parametrize(("checkpoint", "times"), [(False, 1), (True, 2)], ids=["kept", "checkpointed"])
def test_a_segment_is_computed_a_second_time_only_when_checkpointed(checkpoint, times):
    model, computed = build(configuration("rmt")), []
    model.register_forward_pre_hook(lambda module, inputs: computed.append(inputs))
    gradients_of_all(model, checkpoint)
    assert len(computed) == 3 * times


def gradients_of_all(model: SegmentModel, checkpoint: bool) -> dict[str, torch.Tensor]:
    """Gradients of a functional of everything three segments give."""
    outputs: list[Output] = run(model, random_segments(), checkpoint)
    return gradients(functional(*(output.logits for output in outputs), *carried(outputs[-1].state)), model)
