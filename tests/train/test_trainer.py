"""A batch becomes updates: the gradient that is applied is the one that the schedule promises."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.tasks.task import Batch
from rmt.train.snapshots import restore, snapshot
from rmt.train.trainer import Trainer
from tests.laws.models import assert_same
from tests.train.runs import tiny, trainer_of
from tests.train.texts import text, write_corpus

LENGTH = 2  # five segments of 9 tokens: 2, 2, 2, 2, 1; the loss counts from token 3, in the second segment


@pytest.mark.parametrize("model", ["rmt", "transformer_xl"])
def test_a_sequence_makes_the_gradient_of_the_mean_loss_over_all_counted_positions(model):
    trainer = double(model=MODELS[model])
    batch = next_batch(trainer)
    applied = applied_gradients(trainer)
    list(trainer.updates())
    (found,) = applied
    assert_same(found, gradient(trainer, mean_loss(trainer, batch)))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_sequence_of_finite_depth_adds_up_the_losses_of_its_segments_each_cut(depth):
    trainer = double(bptt={"depth": depth})
    batch = next_batch(trainer)
    applied = applied_gradients(trainer)
    list(trainer.updates())
    expected = [torch.zeros_like(parameter) for parameter in trainer.model.parameters()]
    for last in range(5):
        if counted(batch, last):
            loss = loss_sum(trainer, batch, cuts=(last - depth,), of=(last,)) / batch.loss_mask.sum()
            expected = [sum(pair) for pair in zip(expected, gradient(trainer, loss), strict=True)]
    (found,) = applied
    assert_same(found, expected)


def test_a_chunk_makes_the_gradient_of_the_mean_loss_over_its_own_positions():
    trainer = double(bptt={"schedule": "chunked", "depth": 1})
    batch = next_batch(trainer)
    applied = applied_gradients(trainer)
    list(trainer.updates())
    for found, chunk in zip(applied, [(0, 1), (2, 3), (4,)], strict=True):
        positions = sum(counted(batch, index) for index in chunk)
        loss = loss_sum(trainer, batch, cuts=(2, 4), of=chunk) / positions
        assert_same(found, gradient(trainer, loss))


def test_sliding_makes_the_gradient_of_the_mean_loss_of_the_newest_segment():
    trainer = double(bptt={"schedule": "sliding", "depth": 1})
    batch = next_batch(trainer)
    applied = applied_gradients(trainer)
    list(trainer.updates())
    for found, last in zip(applied, [1, 2, 3, 4], strict=True):
        loss = loss_sum(trainer, batch, cuts=(last - 1,), of=(last,)) / counted(batch, last)
        assert_same(found, gradient(trainer, loss))


@pytest.mark.parametrize(
    ("bptt", "expected"),
    [
        pytest.param({"schedule": "sequence", "depth": "full"}, 1, id="sequence-full"),
        pytest.param({"schedule": "sequence", "depth": 1}, 1, id="sequence-1"),
        pytest.param({"schedule": "chunked", "depth": 0}, 4, id="chunked-0"),
        pytest.param({"schedule": "chunked", "depth": 1}, 3, id="chunked-1"),
        pytest.param({"schedule": "chunked", "depth": 2}, 2, id="chunked-2"),
        pytest.param({"schedule": "sliding", "depth": 0}, 4, id="sliding-0"),
        pytest.param({"schedule": "sliding", "depth": 2}, 4, id="sliding-2"),
    ],
)
def test_a_batch_makes_an_update_per_window_with_a_loss(bptt, expected):
    trainer = trainer_of(tiny(bptt=bptt))
    assert len(list(trainer.updates())) == expected
    assert trainer.step == expected


def test_an_update_tells_the_mean_loss_and_the_right_predictions_of_its_positions():
    trainer = double()
    batch = next_batch(trainer)
    expected, logits = mean_loss(trainer, batch), all_logits(trainer, batch)
    (update,) = trainer.updates()
    assert_same(update.loss, expected.detach())
    assert update.correct == ((logits.argmax(-1) == batch.targets) & batch.loss_mask).sum()
    assert update.counted == batch.loss_mask.sum()


def test_the_applied_gradient_is_clipped_to_the_largest_norm_and_the_whole_norm_is_told():
    whole, clipped = double(optimizer={"clip": 0.0}), double(optimizer={"clip": 0.01})
    applied = {id(trainer): applied_gradients(trainer) for trainer in (whole, clipped)}
    updates = [next(trainer.updates()) for trainer in (whole, clipped)]
    norms = [total_norm(applied[id(trainer)][0]) for trainer in (whole, clipped)]
    assert norms[0] > 0.1
    assert norms[1] == pytest.approx(0.01, rel=1e-3)
    assert [float(update.norm) for update in updates] == pytest.approx([norms[0], norms[0]])


def test_no_gradient_is_left_behind_for_the_next_update():
    trainer = double(bptt={"schedule": "chunked", "depth": 0})
    for _ in trainer.updates():
        assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_the_learning_rate_of_an_update_is_that_of_its_step():
    trainer = trainer_of(tiny(optimizer={"name": "adam", "lr": 0.1}, rate={"warmup": 4}))
    rates = []
    for _ in range(6):
        next(trainer.updates())
        rates.append(trainer.optimizers[0].param_groups[0]["lr"])
    assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])


def test_the_same_seed_makes_the_same_weights_and_another_seed_others():
    first, again, other = (trainer_of(tiny(seed=seed)).model.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_a_fixed_set_comes_in_order_again_and_again():
    trainer = trainer_of(tiny(task={"source": "fixed"}, train={"batch": 16}))
    whole = trainer.task.split("train").tokens
    assert torch.equal(tokens_fed(trainer, batches=5), torch.cat([whole, whole]))


def test_a_shuffled_fixed_set_is_a_new_permutation_in_every_epoch():
    trainer = trainer_of(tiny(task={"source": "fixed", "shuffle": True}, train={"batch": 16}))
    whole = sorted(trainer.task.split("train").tokens.tolist())
    first, second = tokens_fed(trainer, batches=5).split(40)
    assert sorted(first.tolist()) == sorted(second.tolist()) == whole
    assert not torch.equal(first, second)


@pytest.mark.parametrize("shuffle", [False, True], ids=["in-order", "shuffled"])
def test_a_resumed_fixed_set_goes_on_in_the_middle_of_an_epoch(shuffle):
    config = tiny(task={"source": "fixed", "shuffle": shuffle}, train={"batch": 16})
    whole, stopped, resumed = (trainer_of(config) for _ in range(3))
    tokens_fed(stopped, batches=2)
    next(stopped.updates())
    restore(resumed, snapshot(stopped))
    assert torch.equal(tokens_fed(resumed, batches=4), tokens_fed(whole, batches=7)[3 * 16 :])


def test_fresh_examples_depend_on_the_seed_and_on_the_place_only():
    trainer, again, other = (trainer_of(tiny(seed=seed)) for seed in (0, 0, 1))
    first = tokens_fed(trainer, batches=3)
    assert torch.equal(first, tokens_fed(again, batches=3))
    assert not torch.equal(first, tokens_fed(other, batches=3))
    assert not torch.equal(first[:4], first[4:8])


def test_precision_64_computes_and_learns_in_double():
    trainer = double()
    (update,) = trainer.updates()
    assert update.loss.dtype == update.norm.dtype == torch.float64
    assert {tensor.dtype for tensor in snapshot(trainer).model.values()} == {torch.float64}


MODELS = {
    "rmt": {},
    "transformer_xl": {"memory": {"size": 0}, "cache": {"size": 3}},
}


def double(**groups: dict) -> Trainer:
    return trainer_of(tiny(precision="64-true", **{"optimizer": {"clip": 0.0}, **groups}))


def next_batch(trainer: Trainer) -> Batch:
    return trainer.feed.batch(trainer.batches)


def tokens_fed(trainer: Trainer, batches: int) -> Tensor:
    """The tokens of the next batches."""
    rows = []
    for _ in range(batches):
        rows.append(next_batch(trainer).tokens)
        trainer.batches += 1
    return torch.cat(rows)


def applied_gradients(trainer: Trainer) -> list[list[Tensor]]:
    """Fills with the gradients that each update brings to the optimizers, which do not get to use them."""
    applied: list[list[Tensor]] = []

    def note(*_: object) -> None:
        parameters = list(trainer.model.parameters())
        applied.append([torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters])
        for parameter in parameters:
            parameter.grad = None

    trainer.optimizers[0].register_step_pre_hook(note)
    return applied


def gradient(trainer: Trainer, loss: Tensor) -> list[Tensor]:
    parameters = list(trainer.model.parameters())
    return list(torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True))


def all_logits(trainer: Trainer, batch: Batch, cuts: tuple[int, ...] = ()) -> Tensor:
    """(B, T, V), the state cut before the segments `cuts`."""
    state, logits = trainer.model.initial_state(len(batch.tokens)), []
    for index, tokens in enumerate(batch.tokens.split(LENGTH, dim=1)):
        state = state.detach() if index in cuts and index > 0 else state
        output = trainer.model(tokens, state)
        state = output.state
        logits.append(output.logits)
    return torch.cat(logits, dim=1)


def mean_loss(trainer: Trainer, batch: Batch) -> Tensor:
    return F.cross_entropy(all_logits(trainer, batch)[batch.loss_mask], batch.targets[batch.loss_mask])


def loss_sum(trainer: Trainer, batch: Batch, cuts: tuple[int, ...], of: tuple[int, ...]) -> Tensor:
    """The summed loss of the counted positions of the segments `of`."""
    chosen = torch.isin(torch.arange(batch.tokens.shape[1]) // LENGTH, torch.tensor(of)) & batch.loss_mask
    logits = all_logits(trainer, batch, cuts)
    return F.cross_entropy(logits[chosen], batch.targets[chosen], reduction="sum")


def counted(batch: Batch, index: int) -> int:
    return int(batch.loss_mask[:, index * LENGTH : (index + 1) * LENGTH].sum())


def total_norm(gradients: list[Tensor]) -> float:
    return math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))


def test_an_output_layer_with_a_gain_starts_at_how_often_tokens_are_targets(tmp_path):
    gained = {"output": "gained"}
    for config in (tiny(model=gained), text(write_corpus(tmp_path), model=gained)):
        trainer = trainer_of(config)
        counts = np.ones(config.model.vocabulary)
        counts[: trainer.task.vocabulary] += trainer.task.target_counts()
        state = trainer.model.initial_state(2)
        predicted = trainer.model(torch.tensor([[1, 2, 3], [3, 3, 0]]), state).logits.softmax(-1)
        expected = torch.from_numpy(counts / counts.sum()).float().expand_as(predicted)
        assert_same(predicted, expected, tolerance=1e-6)
