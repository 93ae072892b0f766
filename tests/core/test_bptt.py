"""BPTT depth: a full unroll cut before segment τ−k; exactly nothing gets through the cut."""

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from rmt import Output, SegmentModel, State
from rmt.core.bptt import Plan, Window, bptt, replay, windows
from rmt.errors import ConfigError
from tests.laws.models import assert_same, assert_same_gradients, build, configuration, functional, gradients

SEGMENTS, BATCH, LENGTH = 5, 2, 4
TOKENS = BATCH * LENGTH  # ids that only one segment has
RECURRENT = ("rmt", "transformer_xl_rmt")
KINDS = (*RECURRENT, "transformer_xl")
DEPTHS = (0, 1, 2, 3)


@pytest.mark.covering
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_depth_k_is_a_full_unroll_cut_before_segment_tau_minus_k(kind, depth):
    model, found = model_of(kind), []
    for last, loss in enumerate(losses(model, depth)):
        expected = loss_of_cut_unroll(model, last, cut_before=last - depth)
        assert_same(loss, expected)
        assert_same_gradients(gradients(loss, model), gradients(expected, model))
        found.append(last)
    assert found == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_depth_full_is_the_loss_of_each_segment_through_everything_before_it(kind):
    model = model_of(kind)
    found = list(losses(model, "full"))
    assert len(found) == SEGMENTS
    expected = sum(loss_of_cut_unroll(model, last, cut_before=0) for last in range(SEGMENTS))
    assert_same_gradients(gradients(sum(found), model), gradients(expected, model))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", RECURRENT)
def test_depth_k_reaches_exactly_k_previous_segments(kind, depth):
    model = model_of(kind)
    probe = probe_of(model)
    for last, loss in enumerate(losses(model, depth)):
        assert reached(loss, probe) == list(range(max(0, last - depth), last + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_depth_zero_sends_exactly_nothing_to_earlier_segments(kind):
    model = model_of(kind)
    probe = probe_of(model)
    for last, loss in enumerate(losses(model, depth=0)):
        (gradient,) = torch.autograd.grad(loss, probe)
        assert not gradient[: last * TOKENS].any()


def test_a_cache_alone_reaches_no_previous_segment_at_any_depth():
    model = model_of("transformer_xl")
    probe = probe_of(model)
    for last, loss in enumerate(losses(model, depth=3)):
        assert reached(loss, probe) == [last]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", RECURRENT)
def test_initial_memory_gets_gradient_exactly_while_segment_0_is_in_the_window(kind, depth):
    model = model_of(kind)
    got = [bool(gradients(loss, model)["memory.tokens.weight"].any()) for loss in losses(model, depth)]
    assert got == [last <= depth for last in range(SEGMENTS)]


def test_the_given_state_is_never_cut():
    model = model_of("transformer_xl_rmt")
    given = model.initial_state(BATCH)
    given = given.with_memory(given.memory.detach().requires_grad_())
    first = next(bptt(model, segments(), given, loss_of, 0))
    (gradient,) = torch.autograd.grad(first, given.memory)
    assert gradient.any()


@pytest.mark.parametrize(
    ("depth", "schedule", "expected"),
    [
        pytest.param("full", "sequence", [(0, 5, (0, 1, 2, 3, 4))], id="full-sequence"),
        pytest.param(
            0,
            "sequence",
            [(0, 1, (0,)), (1, 2, (1,)), (2, 3, (2,)), (3, 4, (3,)), (4, 5, (4,))],
            id="0-sequence",
        ),
        pytest.param(
            1,
            "sequence",
            [(0, 1, (0,)), (0, 2, (1,)), (1, 3, (2,)), (2, 4, (3,)), (3, 5, (4,))],
            id="1-sequence",
        ),
        pytest.param(
            2,
            "sliding",
            [(0, 1, (0,)), (0, 2, (1,)), (0, 3, (2,)), (1, 4, (3,)), (2, 5, (4,))],
            id="2-sliding",
        ),
        pytest.param(
            0,
            "chunked",
            [(0, 1, (0,)), (1, 2, (1,)), (2, 3, (2,)), (3, 4, (3,)), (4, 5, (4,))],
            id="0-chunked",
        ),
        pytest.param(1, "chunked", [(0, 2, (0, 1)), (2, 4, (2, 3)), (4, 5, (4,))], id="1-chunked-ragged"),
        pytest.param(2, "chunked", [(0, 3, (0, 1, 2)), (3, 5, (3, 4))], id="2-chunked-ragged"),
        pytest.param(4, "chunked", [(0, 5, (0, 1, 2, 3, 4))], id="4-chunked-all"),
        pytest.param(9, "chunked", [(0, 5, (0, 1, 2, 3, 4))], id="deeper-than-long-chunked"),
        pytest.param(
            9,
            "sliding",
            [(0, 1, (0,)), (0, 2, (1,)), (0, 3, (2,)), (0, 4, (3,)), (0, 5, (4,))],
            id="deeper-than-long-sliding",
        ),
    ],
)
def test_windows_of_five_segments(depth, schedule, expected):
    assert windows([1] * 5, depth, schedule) == [Window(*window) for window in expected]


@pytest.mark.parametrize(
    ("depth", "schedule", "expected"),
    [
        pytest.param("full", "sequence", [(0, 4, (1, 3))], id="full-sequence"),
        pytest.param(1, "sliding", [(0, 1, ()), (0, 2, (1,)), (1, 3, ()), (2, 4, (3,))], id="1-sliding"),
        pytest.param(1, "chunked", [(0, 2, (1,)), (2, 4, (3,))], id="1-chunked"),
        pytest.param(0, "chunked", [(0, 1, ()), (1, 2, (1,)), (2, 3, ()), (3, 4, (3,))], id="0-chunked"),
    ],
)
def test_windows_count_only_segments_that_have_losses(depth, schedule, expected):
    assert windows([0, 7, 0, 2], depth, schedule) == [Window(*window) for window in expected]


@pytest.mark.parametrize(
    ("depth", "schedule"),
    [("full", "sequence"), (0, "sequence"), (2, "sequence"), (1, "chunked"), (1, "sliding")],
    ids=["full-sequence", "0-sequence", "2-sequence", "1-chunked", "1-sliding"],
)
@pytest.mark.parametrize("counts", [(0, 0, 3, 0, 2), (0, 1, 0, 0, 0)], ids=["two-losses", "an-early-loss"])
def test_segments_without_loss_are_skimmed_as_if_they_counted_with_weight_zero(counts, depth, schedule):
    model, seen = model_of("transformer_xl_rmt"), {}

    def weighted(index: int, output: Output) -> Tensor:
        seen.setdefault(index, []).append(output.logits)
        return loss_of(index, output) * bool(counts[index])

    skimmed = [gradients(loss, model) for _, loss in run(model, windows(counts, depth, schedule), weighted)]
    logits, seen = {index: outputs[0] for index, outputs in seen.items()}, {}
    counted = [
        gradients(loss, model)
        for window, loss in run(model, windows([1] * SEGMENTS, depth, schedule), weighted)
        if any(counts[index] for index in window.counted)
    ]
    assert_same(logits, {index: seen[index][0] for index in logits})
    assert len(skimmed) == len(counted)
    for mine, theirs in zip(skimmed, counted, strict=True):
        assert_same_gradients(mine, theirs)


def test_segments_without_loss_are_read_once_and_without_a_graph():
    model, read = model_of("rmt"), []
    model.register_forward_hook(lambda module, inputs, output: read.append(output.logits.requires_grad))
    list(run(model, windows([0, 0, 0, 0, 1], 1, "sliding")))
    assert read == [False, False, False, False, True, True]


@pytest.mark.covering
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_sliding_stored_replays_from_each_segments_own_incoming_state(kind, depth):
    found = losses_while_learning(model_of(kind), depth, "stored")
    model, incoming, expected = model_of(kind), {}, []
    for last in range(SEGMENTS):
        first = max(0, last - depth)
        state = incoming[first].detach() if first else model.initial_state(BATCH)
        for index in range(first, last + 1):
            output = model(segments()[index], state)
            state = output.state
        incoming[last + 1] = state
        expected.append(learn(model, loss_of(last, output)))
    assert_same(found, torch.stack(expected))


@pytest.mark.covering
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_sliding_latest_replays_from_the_newest_memory_with_each_segments_own_cache(kind, depth):
    learned = losses_while_learning(model_of(kind), depth, "latest")
    model, expected = model_of(kind), []
    incoming = {0: model.initial_state(BATCH)}
    for last in range(SEGMENTS):
        state = incoming[last].detach() if last else incoming[0]
        for index in range(max(0, last - depth), last + 1):
            if index < last:
                state = State(state.memory, incoming[index].cache, incoming[index].cached)
            output = model(segments()[index], state)
            state = output.state
        incoming[last + 1] = state
        expected.append(learn(model, loss_of(last, output)))
    assert_same(learned, torch.stack(expected))


def test_stored_and_latest_are_different_where_a_window_reaches_back():
    stored, latest = (losses_while_learning(model_of("rmt"), 1, origin) for origin in ("stored", "latest"))
    assert torch.equal(stored[0], latest[0])
    assert (stored[1:] - latest[1:]).abs().min() > 1e-6


def test_states_that_no_later_window_starts_from_are_dropped():
    model, plan = model_of("rmt"), windows([1] * SEGMENTS, 1, "sliding")
    incoming = {0: model.initial_state(BATCH)}
    assert len([*replay(model, segments(), incoming, loss_of, Plan(plan, "stored", False))]) == SEGMENTS
    assert set(incoming) == {SEGMENTS - 2, SEGMENTS - 1, SEGMENTS}


@pytest.mark.covering
@pytest.mark.parametrize(
    ("depth", "schedule"),
    [("full", "sequence"), (2, "sequence"), (1, "chunked"), (2, "sliding")],
    ids=["full-sequence", "2-sequence", "1-chunked", "2-sliding"],
)
@pytest.mark.parametrize("kind", RECURRENT)
def test_recomputing_segments_gives_the_same_gradients(kind, depth, schedule):
    model, plan = model_of(kind), windows([1] * SEGMENTS, depth, schedule)
    kept, recomputed = (
        [gradients(loss, model) for _, loss in run(model, plan, checkpoint=again)] for again in (False, True)
    )
    for mine, theirs in zip(recomputed, kept, strict=True):
        assert_same_gradients(mine, theirs)


def model_of(kind: str) -> SegmentModel:
    return build(configuration(kind, vocabulary=SEGMENTS * TOKENS))


def segments() -> list[Tensor]:
    """Segment τ has ids that no other segment has, each of them once."""
    return list(torch.arange(SEGMENTS * TOKENS).view(SEGMENTS, BATCH, LENGTH).unbind(0))


def loss_of(index: int, output: Output) -> Tensor:
    return functional(output.logits) * (index + 1)


def losses(model: SegmentModel, depth: int | str) -> Iterator[Tensor]:
    return bptt(model, segments(), model.initial_state(BATCH), loss_of, depth)


def run(
    model: SegmentModel,
    plan: Sequence[Window],
    weighted=loss_of,
    checkpoint: bool = False,
) -> Iterator[tuple[Window, Tensor]]:
    return replay(
        model, segments(), {0: model.initial_state(BATCH)}, weighted, Plan(plan, "stored", checkpoint)
    )


def loss_of_cut_unroll(model: SegmentModel, last: int, cut_before: int) -> Tensor:
    """The loss of one segment after an unroll from segment 0 that is cut at one border, if it is one."""
    state = model.initial_state(BATCH)
    for index, tokens in enumerate(segments()[: last + 1]):
        if index == cut_before and index >= 1:
            state = state.detach()
        output = model(tokens, state)
        state = output.state
    return loss_of(last, output)


def probe_of(model: SegmentModel) -> Tensor:
    """Zeros added to the embedding of every token, a row per id: the gradient tells who is reached."""
    probe = torch.zeros(SEGMENTS * TOKENS, model.config.width, requires_grad=True)
    model.embedding.register_forward_hook(lambda module, inputs, output: output + probe[inputs[0]])
    return probe


def reached(loss: Tensor, probe: Tensor) -> list[int]:
    """The segments whose embeddings get any gradient; every token of them has to."""
    (gradient,) = torch.autograd.grad(loss, probe)
    rows = gradient.abs().amax(-1).view(SEGMENTS, TOKENS)
    found = [index for index in range(SEGMENTS) if rows[index].any()]
    assert all(rows[index].all() for index in found)
    return found


def learn(model: SegmentModel, loss: Tensor) -> Tensor:
    """One step of gradient descent; the loss before it."""
    found = gradients(loss, model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter -= 0.001 * found[name]
    return loss.detach()


def losses_while_learning(model: SegmentModel, depth: int, origin: str) -> Tensor:
    plan = Plan(windows([1] * SEGMENTS, depth, "sliding"), origin)
    steps = replay(model, segments(), {0: model.initial_state(BATCH)}, loss_of, plan)
    return torch.stack([learn(model, loss) for _, loss in steps])


@pytest.mark.parametrize("depth", [-1, "x", True, 1.5])
def test_a_depth_that_is_none_is_refused(depth):
    model = model_of("rmt")
    segments = list(torch.zeros(2, 1, LENGTH, dtype=torch.long))
    state = model.initial_state(1)
    losses_of_all = bptt(model, segments, state, lambda _, output: output.logits.sum(), depth)
    with pytest.raises(ConfigError, match=f"depth={depth!r}"):
        list(losses_of_all)
