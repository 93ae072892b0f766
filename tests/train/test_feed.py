"""Endless text: what is read, what is carried on and what an update learns, against one row at a time."""

# B rows · L tokens of a segment · T tokens of a lane · M memory

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rmt.train.feed import FeedItem
from rmt.train.trainer import Trainer
from tests.laws.models import assert_same
from tests.train.runs import trainer_of
from tests.train.test_trainer import gradient
from tests.train.texts import (
    BATCH,
    LANE,
    LENGTH,
    MODELS,
    PASS,
    lanes_by_hand,
    starts_anew,
    text,
    write_corpus,
)
from tests.train.twin import Twin, window_of

SCHEDULES = {
    "chunked-0": {"schedule": "chunked", "depth": 0},
    "chunked-1": {"schedule": "chunked", "depth": 1},
    "chunked-2": {"schedule": "chunked", "depth": 2},
    "sliding-0": {"schedule": "sliding", "depth": 0},
    "sliding-1": {"schedule": "sliding", "depth": 1},
    "sliding-2": {"schedule": "sliding", "depth": 2},
    "sliding-1-latest": {"schedule": "sliding", "depth": 1, "replay_from": "latest"},
    "sliding-2-latest": {"schedule": "sliding", "depth": 2, "replay_from": "latest"},
}
SEGMENTS = 8  # to read at least; a pass has fewer
RESETS = ("never", 1, 2, "document")
REPLAYED = pytest.mark.parametrize("schedule", ["chunked-2", "sliding-1", "sliding-2-latest"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("schedule", ["chunked-0", "chunked-2", "sliding-0", "sliding-2"])
def test_the_segments_that_come_are_contiguous_lanes_again_and_again(data, schedule):
    trainer = trainer_of(text(data, bptt=SCHEDULES[schedule]))
    items = items_of(trainer, SEGMENTS)
    new = [segment for item in items for segment in item.segments[item.past :]]
    read = torch.cat([segment.tokens for segment in new], dim=1)
    targets = torch.cat([segment.targets for segment in new], dim=1)
    lanes, used = lanes_by_hand(data), PASS * LENGTH
    passes = read.shape[1] // used + 1
    assert lanes.shape == (BATCH, LANE)
    assert torch.equal(read, lanes[:, :used].repeat(1, passes)[:, : read.shape[1]])
    assert torch.equal(targets, lanes[:, 1 : used + 1].repeat(1, passes)[:, : read.shape[1]])
    assert all(segment.loss_mask.all() for segment in new)
    assert read.shape[1] > used


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_is_kept_to_be_replayed_are_the_segments_just_before(data, depth):
    trainer = trainer_of(text(data, bptt={"schedule": "sliding", "depth": depth}))
    seen = []
    for number, item in enumerate(items_of(trainer, SEGMENTS)):
        assert item.past == min(number, depth)
        for kept, before in zip(item.segments[: item.past], seen[number - item.past :], strict=True):
            assert torch.equal(kept.tokens, before.tokens)
            assert torch.equal(kept.reset, before.reset)
        seen.append(item.segments[-1])


@pytest.mark.covering
@pytest.mark.parametrize("schedule", ["chunked-1", "sliding-2"])
@pytest.mark.parametrize("reset", RESETS)
def test_rows_start_anew_with_each_pass_and_as_the_setting_says(data, reset, schedule):
    trainer = trainer_of(text(data, task={"reset": reset}, bptt=SCHEDULES[schedule]))
    place = 0
    for item in items_of(trainer, 6 if schedule == "chunked-1" else 11):
        first = place - item.past
        expected = [
            [starts_anew(reset, first + index, row) for row in range(BATCH)]
            for index in range(len(item.segments))
        ]
        assert [segment.reset.tolist() for segment in item.segments] == expected
        assert list(item.fresh) == [any(rows) for rows in expected]
        place += len(item.counts)
    assert place > 2 * PASS


@pytest.mark.covering
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("model", ["transformer_xl", "rmt", "transformer_xl_rmt"])
def test_every_update_is_that_of_one_row_and_segment_at_a_time(data, model, schedule):
    assert_like_twin(data, model=MODELS[model], bptt=SCHEDULES[schedule])


@pytest.mark.covering
@REPLAYED
@pytest.mark.parametrize("reset", [1, 2, "document"])
def test_every_update_with_rows_that_start_anew_is_that_of_one_row_and_segment_at_a_time(
    data, reset, schedule
):
    assert_like_twin(
        data, model=MODELS["transformer_xl_rmt"], bptt=SCHEDULES[schedule], task={"reset": reset}
    )


@pytest.mark.covering
@REPLAYED
@pytest.mark.parametrize("cutoffs", [(), (2, 5)], ids=["plain", "adaptive"])
def test_the_auxiliary_loss_of_memory_is_learned_with_its_weight_and_not_told(data, schedule, cutoffs):
    model = {"memory": {"predicts": True}, "cutoffs": cutoffs}
    assert_like_twin(data, model=model, bptt=SCHEDULES[schedule], train={"memory_loss": 0.01})


@pytest.mark.parametrize("schedule", ["chunked-1", "sliding-2"])
def test_a_recomputed_window_makes_the_same_updates(data, schedule):
    assert_like_twin(
        data, model=MODELS["transformer_xl_rmt"], bptt={**SCHEDULES[schedule], "checkpoint": True}
    )


@pytest.mark.covering
@REPLAYED
@pytest.mark.parametrize("memory_loss", [0.0, 0.01], ids=["plain", "memory-loss"])
def test_a_batch_in_two_parts_makes_the_gradient_of_the_whole(data, schedule, memory_loss):
    def trainer(accumulate: int) -> Trainer:
        return double(
            data,
            model={**MODELS["transformer_xl_rmt"], "memory": {"size": 2, "predicts": memory_loss > 0}},
            task={"reset": 2},
            bptt=SCHEDULES[schedule],
            train={"batch": 4, "accumulate": accumulate, "memory_loss": memory_loss},
        )

    whole, parts = trainer(1), trainer(2)
    applied, pieced = applied_gradients(whole), applied_gradients(parts)
    for _ in range(updates_of(SCHEDULES[schedule])):
        parts.model.load_state_dict(whole.model.state_dict())
        (mine,), (theirs,) = parts.updates(), whole.updates()
        assert_same((mine.loss, mine.norm), (theirs.loss, theirs.norm))
        assert_same(pieced.pop(), applied.pop())
        assert (int(mine.correct), mine.counted) == (int(theirs.correct), theirs.counted)


@pytest.mark.covering
@pytest.mark.parametrize(
    "optimizer",
    [{"name": "adam"}, {"name": "adamw", "weight_decay": 0.1}, {"name": "muon", "weight_decay": 0.1}],
    ids=lambda optimizer: optimizer["name"],
)
@pytest.mark.parametrize(
    ("reset", "schedule"), [("never", "chunked-1"), ("never", "sliding-1"), ("document", "chunked-0")]
)
def test_initial_memory_moves_exactly_when_a_row_starts_from_it(data, reset, schedule, optimizer):
    trainer = trainer_of(
        text(data, bptt=SCHEDULES[schedule], task={"reset": reset}, optimizer={"lr": 0.1, **optimizer})
    )
    moved, expected = [], []
    for number in range(2 * PASS):
        before, after = memory_of(trainer), list(trainer.updates()) and memory_of(trainer)
        same = [torch.equal(after[name], before[name]) for name in before]
        assert all(same) or not any(same)
        moved.append(not same[0])
        places = window_of(SCHEDULES[schedule], number).places
        expected.append(any(starts_anew(reset, place, row) for place in places for row in range(BATCH)))
    assert moved == expected
    assert {True, False} == set(moved[1:])


@pytest.mark.parametrize("schedule", ["chunked-1", "sliding-1"])
@pytest.mark.parametrize("model", ["baseline", "memory_transformer"])
def test_models_without_a_state_learn_from_every_segment_alike(data, model, schedule):
    assert_like_twin(data, model=MODELS[model], bptt=SCHEDULES[schedule])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tokens_samples_and_losses_are_counted(data, schedule):
    trainer = trainer_of(text(data, bptt=SCHEDULES[schedule]))
    new = len(window_of(SCHEDULES[schedule], 0).counted)
    for number in range(1, 5):
        (update,) = trainer.updates()
        assert update.counted == BATCH * LENGTH * new
        assert 0 <= int(update.correct) <= update.counted
        assert (trainer.step, trainer.batches) == (number, number)
        assert trainer.samples == number * BATCH * new
        assert trainer.tokens == number * BATCH * LENGTH * new


def updates_of(bptt: dict[str, Any]) -> int:
    """Enough updates to read the segments."""
    return math.ceil(SEGMENTS / len(window_of(bptt, 0).counted))


def assert_like_twin(data: Path, **groups: Any) -> None:
    """Loss and gradient of the first updates are those of the twin, which sees the weights as they become."""
    trainer = double(data, **groups)
    twin, applied = Twin(trainer, lanes_by_hand(data)), applied_gradients(trainer)
    for number in range(updates_of(twin.bptt)):
        told, learned = twin.losses(number)
        expected = gradient(trainer, learned)
        (update,) = trainer.updates()
        assert_same(update.loss, told, tolerance=1e-10)
        assert_same(applied.pop(), expected, tolerance=1e-10)
        assert any(one.any() for one in expected)


def double(data: Path, **groups: Any) -> Trainer:
    """A trainer in float64 whose weights are large enough to make every path felt."""
    optimizer = {"name": "adam", "lr": 0.01, "clip": 0.0}
    trainer = trainer_of(text(data, precision="64-true", optimizer=optimizer, **groups))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return trainer


def applied_gradients(trainer: Trainer) -> list[list[Tensor]]:
    """Fills with the gradients of each update; zeros where there is none."""
    applied: list[list[Tensor]] = []

    def note(*_: object) -> None:
        parameters = trainer.model.parameters()
        applied.append([torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters])

    trainer.optimizers[0].register_step_pre_hook(note)
    return applied


def items_of(trainer: Trainer, updates: int) -> list[FeedItem]:
    """What the feed gives while a trainer trains."""
    items, give = [], trainer.feed.item

    def note(number: int) -> FeedItem:
        items.append(give(number))
        return items[-1]

    trainer.feed.item = note
    for _ in range(updates):
        list(trainer.updates())
    return items


def memory_of(trainer: Trainer) -> dict[str, Tensor]:
    """Copies of the initial memory tokens and of what the optimizers remember of them."""
    tokens = trainer.model.memory.tokens.weight
    states = [optimizer.state[tokens] for optimizer in trainer.optimizers if tokens in optimizer.state]
    kept = {name: value for state in states for name, value in state.items()}
    return {name: tensor.detach().clone() for name, tensor in {"tokens": tokens, **kept}.items()}
