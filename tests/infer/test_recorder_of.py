"""One recorder for all sessions of a model, as long as the model lives, never for parameters that moved."""

import gc
import weakref

from rmt.infer.rows import addresses, recorder_of
from tests.laws.models import build, configuration


def test_sessions_of_a_model_share_its_recorder():
    model, other = build(configuration("rmt")), build(configuration("rmt"))
    assert recorder_of(model) is recorder_of(model)
    assert recorder_of(model) is not recorder_of(other)


def test_a_recorder_does_not_keep_its_model():
    model = build(configuration("rmt"))
    recorder_of(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_model_that_was_cast_is_another_call():
    model = build(configuration("rmt"))
    before = addresses(model)
    assert addresses(model) == before
    model.float()
    assert addresses(model) != before
