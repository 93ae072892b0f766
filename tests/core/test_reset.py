"""Rows that are reset start from the initial state; losses and memory's own loss are those of the logits."""

# B batch · L tokens · M memory · V vocabulary · D width

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rmt import Output, SegmentModel, State
from tests.laws.models import (
    KINDS,
    PRESETS,
    VOCABULARY,
    assert_same,
    assert_same_gradients,
    assert_same_state,
    build,
    carried,
    configuration,
    functional,
    gradients,
    random_tokens,
    row_of,
)

BATCH, LENGTH = 4, 4
RESET = torch.tensor([True, False, True, False])
CUTOFFS = (3, 7, 9)
EVERYONE, NOBODY = torch.ones(BATCH, dtype=torch.bool), torch.zeros(BATCH, dtype=torch.bool)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reset_row_is_that_row_from_the_initial_state_and_the_others_are_as_without(kind):
    model, state = double(kind), used_state(kind)
    found = model(TOKENS, state, reset=RESET)
    for row in range(BATCH):
        before = model.initial_state(1) if RESET[row] else row_of(state, row)
        alone = model(TOKENS[row : row + 1], before)
        assert_same(found.logits[row : row + 1], alone.logits)
        assert_same_state(row_of(found.state, row), alone.state)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_with_some_rows_reset_is_the_sum_of_the_rows_own(kind):
    model, state = double(kind), used_state(kind)
    incoming = [tensor.requires_grad_() for tensor in carried(state)]
    found = value_of(model(TOKENS, state, reset=RESET))
    alone = []
    for row in range(BATCH):
        before = model.initial_state(1) if RESET[row] else row_of(state, row)
        alone.append(model(TOKENS[row : row + 1], before))
    expected = value_of(joined(alone))
    mine, theirs = to_memory(found, incoming), to_memory(expected, incoming)
    assert_same(mine, theirs)
    assert not any(gradient[RESET].any() for gradient in mine)
    assert_same_gradients(gradients(found, model), gradients(expected, model))


@pytest.mark.parametrize("kind", KINDS)
def test_resetting_all_rows_of_an_empty_state_is_the_initial_state(kind):
    model = double(kind)
    found = model(TOKENS, model.empty_state(BATCH), reset=EVERYONE)
    expected = model(TOKENS, model.initial_state(BATCH))
    assert torch.equal(found.logits, expected.logits)
    assert_same_state(found.state, expected.state)
    assert_same_gradients(gradients(value_of(found), model), gradients(value_of(expected), model))


def test_the_empty_state_has_the_shapes_of_the_initial_state_and_no_parameters():
    model = double("transformer_xl_rmt")
    empty, initial = model.empty_state(BATCH), model.initial_state(BATCH)
    assert [tensor.shape for tensor in empty.flat()] == [tensor.shape for tensor in initial.flat()]
    assert [tensor.dtype for tensor in empty.flat()] == [tensor.dtype for tensor in initial.flat()]
    assert not any(tensor.any() or tensor.requires_grad for tensor in empty.flat())


@pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt", "unwritten_memory"])
def test_initial_memory_gets_no_gradient_where_no_row_is_reset(kind):
    model, state = double(kind), used_state(kind)
    for reset in (None, NOBODY):
        found = gradients(value_of(model(TOKENS, state, reset=reset)), model)
        assert not found["memory.tokens.weight"].any()
        assert found["embedding.weight"].any()


@pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt", "unwritten_memory"])
def test_initial_memory_gets_the_gradient_of_the_initial_state_where_all_rows_are_reset(kind):
    model, state = double(kind), used_state(kind)
    found = gradients(value_of(model(TOKENS, state, reset=EVERYONE)), model)
    expected = gradients(value_of(model(TOKENS, model.initial_state(BATCH))), model)
    assert expected["memory.tokens.weight"].any()
    assert_same_gradients(found, expected)


@pytest.mark.parametrize("kind", PRESETS)
def test_reset_and_ragged_rows_go_together(kind):
    model, state = double(kind), used_state(kind)
    lengths = torch.tensor([2, 0, 0, 4])
    found = model(TOKENS, state, lengths, reset=RESET)
    for row, length in enumerate(lengths.tolist()):
        before = model.initial_state(1) if RESET[row] else row_of(state, row)
        alone = model(TOKENS[row : row + 1, :length], before)
        assert_same(found.logits[row : row + 1, :length], alone.logits)
        assert_same_state(row_of(found.state, row), alone.state)


@pytest.mark.parametrize("cutoffs", [(), CUTOFFS], ids=["plain", "adaptive"])
@pytest.mark.parametrize("kind", PRESETS)
def test_losses_are_the_cross_entropy_of_the_logits(kind, cutoffs):
    model, state = double(kind, cutoffs=cutoffs), used_state(kind)
    found = model(TOKENS, state, reset=RESET, targets=TARGETS)
    without = model(TOKENS, state, reset=RESET)
    expected = F.cross_entropy(without.logits.transpose(1, 2), TARGETS, reduction="none")
    assert_same(found.losses, expected)
    assert_same_state(found.state, without.state)
    weights = torch.arange(1.0, 1 + TARGETS.numel()).view_as(TARGETS)
    mine, theirs = ((losses * weights).sum() for losses in (found.losses, expected))
    assert_same_gradients(gradients(mine, model), gradients(theirs, model))
    assert (without.losses, without.memory_loss, found.memory_loss) == (None, None, None)


def test_logits_come_with_losses_but_not_from_an_adaptive_softmax():
    plain, adaptive = double("rmt"), double("rmt", cutoffs=CUTOFFS)
    state = used_state("rmt")
    expected = plain(TOKENS, state).logits
    assert torch.equal(plain(TOKENS, state, targets=TARGETS).logits, expected)
    assert adaptive(TOKENS, state, targets=TARGETS).logits.shape == (BATCH, LENGTH, 0)


@pytest.mark.parametrize("cutoffs", [(), CUTOFFS], ids=["plain", "adaptive"])
@pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt"])
def test_the_loss_of_memory_is_that_of_the_written_memory_and_the_last_token(kind, cutoffs):
    model, state = predicting(kind, cutoffs), used_state(kind)
    found = model(TOKENS, state, reset=RESET, targets=TARGETS)
    expected = naive_memory_loss(model, written(model, state))
    assert_same(found.memory_loss, expected)
    assert_same_gradients(gradients(found.memory_loss, model), gradients(expected, model))
    silent = model(TOKENS, state, reset=RESET)
    assert silent.memory_loss is None


def test_the_loss_of_memory_does_not_depend_on_the_capacities_of_an_adaptive_softmax():
    model, state = predicting("rmt", CUTOFFS), used_state("rmt")
    room = (BATCH * LENGTH,) * len(CUTOFFS)
    exact, roomy = (model(TOKENS, state, targets=TARGETS, capacities=slots) for slots in ((), room))
    assert_same((roomy.losses, roomy.memory_loss), (exact.losses, exact.memory_loss))
    both = [gradients(one.losses.sum() + 3 * one.memory_loss, model) for one in (roomy, exact)]
    assert_same_gradients(*both)


TOKENS = random_tokens(BATCH, LENGTH, seed=3)
TARGETS = random_tokens(BATCH, LENGTH, seed=4)


def double(kind: str, **settings: object) -> SegmentModel:
    return build(configuration(kind, **settings)).double()


def predicting(kind: str, cutoffs: tuple[int, ...]) -> SegmentModel:
    """A model whose written memory predicts the last token of the vocabulary."""
    config = configuration(kind, cutoffs=cutoffs)
    return build(replace(config, memory=replace(config.memory, predicts=True))).double()


def used_state(kind: str) -> State:
    """A state behind two segments, one of them shorter in some rows: caches of unequal length; cut."""
    model = double(kind)
    with torch.no_grad():
        state = model(random_tokens(BATCH, 2, seed=5), model.initial_state(BATCH)).state
        lengths = torch.tensor([1, 2, 0, 1])
        state = model(random_tokens(BATCH, 2, seed=6), state, lengths).state
    return state


def joined(outputs: list[Output]) -> Output:
    """Outputs of single rows as the output of a batch."""
    first, *rest = (output.state for output in outputs)
    logits = torch.cat([output.logits for output in outputs])
    return Output(logits, first.map(lambda *rows: torch.cat(rows), *rest))


def value_of(output: Output) -> Tensor:
    """A number that depends on every logit and on all memory that is handed on."""
    return functional(output.logits, *carried(output.state))


def to_memory(value: Tensor, memory: list[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(value, memory, retain_graph=True, allow_unused=True, materialize_grads=True)


def written(model: SegmentModel, state: State) -> Tensor:
    """The hidden states of the write block, (B, M, D): the last rows that the backbone gives."""
    hidden = []
    handle = model.backbone.register_forward_hook(lambda *call: hidden.append(call[-1].hidden))
    model(TOKENS, state, reset=RESET)
    handle.remove()
    return hidden[0][:, -model.config.memory.size :]


def naive_memory_loss(model: SegmentModel, write: Tensor) -> Tensor:
    """Minus the mean log-probability of the last token, from the tables themselves."""
    table = dict(model.embedding.named_parameters())
    if not model.config.cutoffs:
        scores = write @ table["weight"].T + table["bias"]
        return -scores.log_softmax(-1)[..., VOCABULARY - 1].mean()
    head, last = slice(0, CUTOFFS[0]), slice(CUTOFFS[-1], VOCABULARY)
    weight, bias = table["words.weight"], table["words.bias"]
    words = write @ weight[head].T + bias[head]
    clusters = write @ table["clusters.weight"].T + table["clusters.bias"]  # the last tail is the first
    outside = torch.cat([words, clusters], -1).log_softmax(-1)[..., CUTOFFS[0]]
    inside = (write @ weight[last].T + bias[last]).log_softmax(-1)[..., -1]
    return -(outside + inside).mean()
