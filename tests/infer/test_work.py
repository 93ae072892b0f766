"""Work with a model: a recorder for all callers while the model lives, never for former parameters."""

import gc
import weakref

import pytest
import torch

from rmt import SegmentModel
from rmt.infer.segments import whole_segment
from rmt.infer.work import KEPT, RecordedWork, addresses, evaluation_mode, inference, worker_of
from tests.infer.engines import served
from tests.laws.models import assert_same, assert_same_state, build, configuration, random_tokens

__all__ = ["served"]
EXACT = "64-true"


def encode(model, kind, state, tokens):
    """A work: the state behind a segment, and its hidden states."""
    encoded = model.encode(tokens, state)
    return encoded.state, (encoded.hidden,)


@pytest.mark.usefixtures("served")
def test_callers_of_a_model_share_its_recorder():
    model, other = build(configuration("rmt")), build(configuration("rmt"))
    assert worker_of(model, encode, EXACT) is worker_of(model, encode, EXACT)
    assert worker_of(model, encode, EXACT) is not worker_of(other, encode, EXACT)
    assert worker_of(model, encode, EXACT) is not worker_of(model, encode, "bf16-mixed")
    assert worker_of(model, encode, EXACT) is not worker_of(model, whole_segment, EXACT)


@pytest.mark.usefixtures("served")
def test_what_is_kept_for_a_model_does_not_keep_it():
    model, kept = build(configuration("rmt")), len(KEPT)
    worker_of(model, encode, EXACT)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert len(KEPT) <= kept


@pytest.mark.usefixtures("served")
def test_a_model_that_was_cast_is_recorded_anew():
    model = build(configuration("rmt"))
    before, worker = addresses(model), worker_of(model, encode, EXACT)
    assert addresses(model) == before
    model.float()
    assert addresses(model) != before
    assert worker_of(model, encode, EXACT) is not worker


@pytest.mark.usefixtures("served")
@torch.no_grad()
def test_parameters_that_were_written_to_are_taken_over_and_recordings_dropped():
    model, tokens = build(configuration("transformer_xl_rmt")), random_tokens(2, 5)
    worker, state = worker_of(model, encode, EXACT), model.initial_state(2)
    before = worker((), state, tokens)[1][0]
    worker.recorder.recordings["former"] = "recording"
    assert worker_of(model, encode, EXACT).recorder.recordings
    model.backbone.layers[0].feed_forward[0].weight.mul_(2.0)
    after, (hidden,) = worker_of(model, encode, EXACT)((), state, tokens)
    expected = model.encode(tokens, state)
    assert not worker.recorder.recordings
    assert_same(hidden, expected.hidden)
    assert_same_state(after, expected.state)
    assert not torch.allclose(hidden, before)


def test_where_nothing_is_served_or_recorded_the_model_itself_works():
    model = build(configuration("rmt"))
    assert worker_of(model, encode, EXACT).args == (model,)
    assert worker_of(model, encode).args == (model,)


@torch.no_grad()
def test_a_plain_model_is_used_where_its_parameters_lie():
    model, tokens = build(configuration("rmt")), random_tokens(2, 5)
    worker, state = RecordedWork(model, encode, ""), model.initial_state(2)
    model.embedding.weight.mul_(2.0)
    assert_same(worker((), state, tokens)[1][0], model.encode(tokens, state).hidden)


def test_inference_has_no_gradient_and_no_dropout_and_leaves_the_model_as_it_was():
    model: SegmentModel = build(configuration("rmt", dropout=0.5)).train()
    with inference(model, "bf16-mixed"):
        assert not model.training
        assert not torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert model.training
    with inference(model):
        assert not torch.is_autocast_enabled("cpu")


def test_a_model_stays_in_evaluation_while_anyone_reads_with_it():
    model = build(configuration("rmt", dropout=0.5)).train()
    first, second = evaluation_mode(model), evaluation_mode(model)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(module.training for module in model.modules())
    second.__exit__(None, None, None)
    assert all(module.training for module in model.modules())


def test_what_was_frozen_in_a_model_that_trains_stays_so():
    model = build(configuration("rmt", dropout=0.5)).train()
    frozen = model.backbone.layers[0].eval()
    with inference(model):
        assert not any(module.training for module in model.modules())
    modes = {module.training for module in frozen.modules()}, model.backbone.layers[1].training
    assert modes == ({False}, True)
