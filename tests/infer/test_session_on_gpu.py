"""Sessions on a GPU: in the engine and recorded, as near to float64 as the plain model in bfloat16."""

# B batch · T tokens of all segments

import copy

import pytest
import torch

from rmt import Session
from rmt.infer.segments import whole_segment
from rmt.infer.work import worker_of
from tests.gpus import without_waiting
from tests.laws.models import build, configuration, random_tokens, run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
LENGTH, SEGMENTS = 32, 6
SIZES = {"layers": 2, "heads": 2, "head_width": 16, "width": 32, "inner_width": 64}
KINDS = ("baseline", "rmt", "transformer_xl", "transformer_xl_rmt")
# two ways to round in bfloat16 are equally good: with other weights, errors of all log-probabilities were the
# same within a fifth, those of the few numbers of a row's memory within a factor of two
MANY, FEW = 1.5, 3.0
ROUNDING = {"rtol": 5e-2, "atol": 5e-2, "equal_nan": True}


def model_of(kind, **settings):
    return build(configuration(kind, **SIZES, **settings)).float().cuda()


def unrolled(model, tokens):
    """Log-probabilities of all tokens but the first, (B, T - 1), and the tensors of the state behind."""
    with torch.no_grad():
        outputs = run(model, list(tokens.split(LENGTH, dim=1)))
    logits = torch.cat([output.logits for output in outputs], dim=1).double()
    log_probs = logits.log_softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None])[..., 0]
    return log_probs, outputs[-1].state.flat()


def error(result, exact):
    """How far off, in the root mean square; nothing is where there is nothing."""
    if not exact.numel():
        return 0.0
    return float((result.double() - exact.double()).square().mean().sqrt())


@pytest.mark.parametrize("cutoffs", [(), (3, 7)], ids=["softmax", "adaptive"])
@pytest.mark.parametrize("batch", [1, 5], ids="batch-{}".format)
@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_session_is_as_near_to_float64_as_the_plain_model_in_bfloat16(kind, batch, cutoffs):
    model, tokens = model_of(kind, cutoffs=cutoffs), random_tokens(batch, SEGMENTS * LENGTH).cuda()
    session = Session(model, segment_length=LENGTH, batch=batch)
    assert session.precision == "bf16-mixed"
    log_probs = session.feed(tokens, "log_probs")
    exact_log_probs, exact_states = unrolled(copy.deepcopy(model).double(), tokens)
    with torch.autocast("cuda", torch.bfloat16):
        plain_log_probs, plain_states = unrolled(model, tokens)
    assert error(log_probs[:, 1:], exact_log_probs) <= MANY * error(plain_log_probs, exact_log_probs)
    for mine, plain, exact in zip(session.state.flat(), plain_states, exact_states, strict=True):
        assert error(mine, exact) <= FEW * error(plain, exact) + 1e-6
    assert worker_of(model, whole_segment, session.precision).recorder.recordings


@pytest.mark.parametrize("kind", KINDS)
def test_in_32_true_a_recorded_session_is_the_plain_model(kind):
    model, tokens = model_of(kind), random_tokens(2, SEGMENTS * LENGTH)
    session = Session(model, segment_length=LENGTH, batch=2, precision="32-true")
    hidden = session.feed(tokens, "hidden")
    state, expected = model.initial_state(2), []
    with torch.no_grad():
        for segment in tokens.cuda().split(LENGTH, dim=1):
            encoded = model.encode(segment, state)
            state = encoded.state
            expected.append(encoded.hidden)
    torch.testing.assert_close(hidden, torch.cat(expected, dim=1), rtol=1e-4, atol=1e-4)


def test_parameters_that_changed_between_two_feeds_are_taken_over():
    model, tokens = model_of("rmt"), random_tokens(1, SEGMENTS * LENGTH)
    session = Session(model, segment_length=LENGTH)
    session.feed(tokens)
    with torch.no_grad():
        model.backbone.layers[0].feed_forward[0].weight.mul_(2.0)
    fresh = Session(build(model.config).float().cuda(), segment_length=LENGTH)
    fresh.model.load_state_dict(model.state_dict())
    fresh.begin(session.contents)
    torch.testing.assert_close(session.feed(tokens, "hidden"), fresh.feed(tokens, "hidden"), **ROUNDING)


def test_nothing_waits_for_the_device_while_segments_are_fed():
    model = model_of("transformer_xl_rmt", cutoffs=(3, 7))
    session, tokens = Session(model, segment_length=LENGTH, batch=2), random_tokens(2, SEGMENTS * LENGTH)
    session.feed(tokens)  # recorded
    rows = session.rows.fork()
    lengths = torch.full((2,), tokens.shape[1])
    with without_waiting():
        rows.encode_segments(tokens, lengths, "nothing", True)
    rows.require_finite()


def test_a_failing_feed_leaves_the_session_as_it_was():
    model, tokens = model_of("rmt"), random_tokens(1, SEGMENTS * LENGTH)
    session = Session(model, segment_length=LENGTH)
    session.feed(tokens)
    before = session.contents
    weight = model.backbone.final_norm.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[0] = float("nan")
    with pytest.raises(Exception, match="NaN or inf"):
        session.feed(tokens)
    with torch.no_grad():
        weight.copy_(kept)
    for mine, theirs in zip(session.state.flat(), before.state.flat(), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(session.seen, before.seen)
