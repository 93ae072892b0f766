"""Whole segments in a session: in the engine as in the plain model, and nobody waits for them one by one."""

import pytest
import torch

from rmt import Session
from rmt.infer.segments import FEWEST_SLOTS, capacities_of
from rmt.nn.adaptive import targets_fit_slots
from tests.infer.engines import served
from tests.infer.waits import count_waits
from tests.laws.models import LENGTH, assert_same, assert_same_state, build, configuration, random_tokens

__all__ = ["served"]
KINDS = ("baseline", "rmt", "transformer_xl", "transformer_xl_rmt", "memory_in_layers")
CUTOFFS = (3, 7)


@pytest.mark.covering
@pytest.mark.parametrize("cutoffs", [(), CUTOFFS], ids=["softmax", "adaptive"])
@pytest.mark.parametrize("batch", [1, 3], ids="batch-{}".format)
@pytest.mark.parametrize("kind", KINDS)
def test_a_session_in_the_engine_is_the_plain_one(kind, batch, cutoffs, request):
    model = build(configuration(kind, cutoffs=cutoffs))
    feeds = [random_tokens(batch, size * LENGTH + rest, seed=size) for size, rest in ((3, 2), (1, 3), (4, 0))]
    results = []
    for engine in (False, True):
        if engine:
            request.getfixturevalue("served")
        session = Session(model, segment_length=LENGTH, batch=batch)
        results.append(([session.feed(tokens, "log_probs") for tokens in feeds], session))
    (expected, plain), (actual, session) = results
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert session.score() == pytest.approx(plain.score(), rel=1e-12)
    assert_same_state(session.close(), plain.close())
    assert bool(session.rows.capacities) is bool(cutoffs)


@pytest.mark.usefixtures("served")
def test_parameters_that_changed_between_two_feeds_are_taken_over():
    model, tokens = build(configuration("rmt")), random_tokens(1, 2 * LENGTH)
    session = Session(model, segment_length=LENGTH)
    session.feed(tokens)
    state = session.state
    with torch.no_grad():
        model.embedding.weight.mul_(1.5)
    assert_same(session.feed(tokens, "hidden")[:, :LENGTH], model.encode(tokens[:, :LENGTH], state).hidden)


@pytest.mark.covering
@pytest.mark.parametrize("returns", ["nothing", "log_probs", "hidden"])
@pytest.mark.parametrize(
    ("engine", "cutoffs"),
    [(False, ()), (True, ()), (True, CUTOFFS)],
    ids=["plain", "engine", "engine-adaptive"],
)
def test_nobody_waits_for_the_device_once_per_segment(engine, returns, cutoffs, request, monkeypatch):
    if engine:
        request.getfixturevalue("served")
    model = build(configuration("transformer_xl_rmt", cutoffs=cutoffs))
    waits = []
    for segments in (1, 20):
        session = Session(model, segment_length=LENGTH, batch=2)
        tokens = random_tokens(2, segments * LENGTH)
        with monkeypatch.context() as patch:
            counts = count_waits(patch)
            session.feed(tokens, returns)
        waits.append(counts)
    assert waits[0] == waits[1]


def test_slots_suffice_for_every_segment_and_never_become_fewer():
    crowded = random_tokens(4, 2, 300)
    crowded[2] = 11  # a segment of rare words only
    slots = capacities_of(crowded, CUTOFFS, ())
    assert all(targets_fit_slots(segment, CUTOFFS, slots) for segment in crowded)
    assert slots[1] == 600  # no more than there are tokens
    calm = torch.zeros_like(crowded)
    assert capacities_of(calm, CUTOFFS, ()) == (FEWEST_SLOTS, FEWEST_SLOTS)
    assert capacities_of(calm, CUTOFFS, slots) == slots


def test_slots_are_powers_of_two_so_that_streams_soon_have_one_recording():
    for count, expected in ((0, 64), (64, 64), (65, 128), (128, 128), (129, 256)):
        tokens = torch.zeros(1, 1, 1000, dtype=torch.long)
        tokens[0, 0, :count] = 5
        assert capacities_of(tokens, CUTOFFS, ())[0] == expected
