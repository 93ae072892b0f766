"""The fast backbone leaves to the plain layers what its kernels do not do, and is in their mode."""

import pytest
import torch

from rmt import SegmentModel, State
from rmt.gpu.engine import why_not_served
from tests.gpu.updates import DEVICE, SERVED, assert_close, engine_of, model_from, model_of, steps
from tests.laws.models import assert_same, assert_same_state, configuration, random_tokens

NORMS = pytest.mark.parametrize("norm", ["pre", "post"])
POSITIONS = pytest.mark.parametrize("positions", ["relative", "rotary"])


def test_the_fast_copy_is_in_the_mode_of_the_model():
    model = model_of("rmt", dropout=0.5)
    engine, (first, *_) = engine_of(model), steps()
    engine.begin()
    model.eval()
    expected = model(first.tokens, model.initial_state(3)).logits
    assert_close(engine.model(first.tokens, model.initial_state(3)).logits, expected, 1e-12)
    model.train()
    assert not torch.allclose(engine.model(first.tokens, model.initial_state(3)).logits, expected)


def halfway(model: SegmentModel, cached: int) -> State:
    """A state whose rows have cached some tokens, one of them none."""
    state = model(random_tokens(3, cached).to(DEVICE), model.initial_state(3)).state
    return model.initial_state(3).where(torch.tensor([False, True, False], device=DEVICE), state)


@pytest.mark.covering
@NORMS
@POSITIONS
@pytest.mark.parametrize("kind", SERVED)
def test_what_kernels_do_not_do_is_done_as_the_plain_model_does_it(kind, positions, norm):
    """Attention maps, ragged rows and stepping, where the cache is empty, partly filled, and full."""
    model = model_of(kind, positions=positions, norm=norm).eval()
    engine, tokens, lengths = engine_of(model), random_tokens(3, 4).to(DEVICE), torch.tensor([4, 1, 0])
    engine.begin()
    with torch.no_grad():
        for state in (model.initial_state(3), halfway(model, 2), halfway(model, 9)):
            for options in ({"attention": True}, {"lengths": lengths.to(DEVICE)}):
                output, expected = (each(tokens, state, **options) for each in (engine.model, model))
                assert_same(output.logits, expected.logits)
                assert_same(output.attention, expected.attention)
                assert_same_state(output.state, expected.state)
            segment, expected = engine.model.open(state), model(tokens, state)
            logits = [segment.step(tokens[:, :1]), segment.step(tokens[:, 1:])]
            assert_same(torch.cat(logits, dim=1), expected.logits)
            assert_same_state(segment.close(), expected.state)


@pytest.mark.parametrize("kind", ["memory_in_layers", "memory_in_layers_with_cache", "associative_memory"])
def test_a_kind_of_memory_that_lives_in_the_layers_is_left_to_the_plain_ones(kind):
    model = model_from(configuration(kind))
    engine, tokens = engine_of(model), random_tokens(2, 4).to(DEVICE)
    assert "lives in the layers" in why_not_served(model, "bf16-mixed") or DEVICE == "cpu"
    gradients = []
    for each in (model, engine.model):
        model.zero_grad()
        engine.begin()
        first = each(tokens, each.initial_state(2), targets=tokens)
        second = each(tokens, first.state, targets=tokens)
        (first.losses.sum() + second.losses.sum()).backward()
        engine.deliver()
        gradients.append([second.logits, *(parameter.grad for parameter in model.parameters())])
    for result, expected in zip(*reversed(gradients), strict=True):
        assert_close(result, expected, 1e-12)
