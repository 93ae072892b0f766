"""What every task promises, and what the base gives to a user's own task."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from rmt.errors import ConfigError
from rmt.tasks.copy import Copy
from rmt.tasks.quadratic import Quadratic
from rmt.tasks.regions import hash_rows, region
from rmt.tasks.retrieval import Retrieval
from rmt.tasks.reverse import Reverse
from rmt.tasks.task import Batch, Examples, Task, next_token

TASKS = [Copy(length=8), Reverse(length=8), Retrieval(), Quadratic()]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
SPLITS = ["train", "valid", "test"]
PAIRS = [("train", "valid"), ("train", "test"), ("valid", "test")]


class Parity(Task):
    """A user's own task: eight bits and their parity."""

    vocabulary = 3
    total_length = 9

    def draw(self, generator, count):
        bits = generator.integers(0, 2, (count, 8))
        ask = np.full((count, 1), 2)
        return next_token(np.concatenate([bits, ask, bits.sum(axis=1, keepdims=True) % 2], axis=1), answer=1)


def same(first: Batch, second: Batch) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def rows_of(batch: Batch) -> set[tuple[int, ...]]:
    return set(map(tuple, batch.tokens.tolist()))


@every_task
def test_a_batch_has_the_shape_and_types_the_task_says(task):
    batch = task.fresh(5, index=0, seed=0)
    assert [column.dtype for column in batch] == [torch.int64, torch.int64, torch.bool, torch.bool]
    assert {tuple(column.shape) for column in batch} == {(5, task.total_length)}


@every_task
def test_tokens_and_targets_stay_within_the_vocabulary(task):
    batch = task.split("valid", 500)
    assert min(batch.tokens.min(), batch.targets.min()) >= 0
    assert max(batch.tokens.max(), batch.targets.max()) == task.vocabulary - 1


@every_task
def test_targets_are_the_next_tokens(task):
    batch = task.split("valid", 50)
    assert torch.equal(batch.targets[:, :-1], batch.tokens[:, 1:])


@every_task
def test_the_answer_lies_under_the_loss(task):
    batch = task.split("valid", 50)
    assert batch.answer.any(dim=1).all()
    assert not (batch.answer & ~batch.loss_mask).any()


@every_task
@pytest.mark.parametrize("split", SPLITS)
def test_a_fixed_split_is_the_same_every_time(task, split):
    assert same(task.split(split, 100), task.split(split, 100))


@every_task
def test_a_short_split_is_the_beginning_of_a_long_one(task):
    long = task.split("test", 700)
    assert same(task.split("test", 30), Batch(*(column[:30] for column in long)))


@every_task
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_splits_are_disjoint(task, one, other):
    assert not rows_of(task.split(one, 500)) & rows_of(task.split(other, 500))


@every_task
def test_another_seed_gives_another_split(task):
    assert not same(task.split("valid", 20), type(task)(seed=1).split("valid", 20))


def test_another_seed_cannot_move_an_example_into_another_split():
    tests, trains = (
        Copy(length=3, seed=seed).split(name, 2000) for seed, name in ((0, "test"), (1, "train"))
    )
    assert not rows_of(tests) & rows_of(trains)


@every_task
def test_the_fresh_stream_is_a_pure_function_of_seed_and_index(task):
    assert same(task.fresh(16, index=3, seed=7), task.fresh(16, index=3, seed=7))


@every_task
@pytest.mark.parametrize("other", [{"index": 4, "seed": 7}, {"index": 3, "seed": 8}], ids=["index", "seed"])
def test_the_fresh_stream_differs_by_seed_and_index(task, other):
    assert not same(task.fresh(16, index=3, seed=7), task.fresh(16, **other))


@every_task
@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_fresh_stream_never_enters_the_region_of_another_split(task, split):
    home = region(task.sizes, split)
    tokens = torch.cat([task.fresh(100, index, seed=0).tokens for index in range(5)])
    assert not home.holds(hash_rows(tokens.numpy())).any()


def test_even_a_tiny_example_space_keeps_its_test_examples_out_of_the_stream():
    task = Copy(length=2)
    stream = set.union(*(rows_of(task.fresh(100, index, seed=5)) for index in range(20)))
    assert stream
    assert not stream & rows_of(task.split("test"))


@pytest.mark.parametrize("split", SPLITS)
def test_a_whole_split_has_the_size_the_task_says(split):
    assert len(Retrieval().split(split).tokens) == Retrieval.sizes[split]


def test_a_unique_task_has_no_duplicates_in_a_split():
    tokens = Retrieval(pairs=2).split("test").tokens
    assert len(torch.unique(tokens, dim=0)) == len(tokens)


def test_a_unique_split_keeps_the_order_of_drawing():
    keys = Retrieval().split("train", 1000).tokens[:, 0]
    assert not torch.equal(keys, keys.sort().values)


def test_a_task_that_is_not_unique_may_repeat_an_example():
    tokens = Copy(length=2).split("test").tokens
    assert len(torch.unique(tokens, dim=0)) < len(tokens)


def test_an_exhausted_example_space_is_an_error_with_a_remedy():
    with pytest.raises(
        ConfigError, match=r"of task 'retrieval' is too small for split 'train': .* choose more pairs"
    ):
        Retrieval(pairs=1).split("train")


def test_an_empty_region_is_an_error_with_a_remedy():
    with pytest.raises(
        ConfigError, match="too small for split 'test': found 0 of 10 examples; choose a longer length"
    ):
        Copy(length=1, symbols=2).split("test", 10)


@pytest.mark.parametrize("count", [0, 5001])
def test_a_split_cannot_be_asked_for_more_or_less_than_it_has(count):
    with pytest.raises(ConfigError, match=f"count={count} of split 'valid' of task 'copy' must be 1 to 5000"):
        Copy().split("valid", count)


def test_an_unknown_split_is_an_error():
    with pytest.raises(ConfigError, match="unknown split 'dev'"):
        Copy().split("dev")


def test_an_empty_batch_is_an_error():
    with pytest.raises(ConfigError, match="size=0"):
        Copy().fresh(0, index=0, seed=0)


def test_a_negative_seed_is_an_error():
    with pytest.raises(ConfigError, match="seed=-1 of task 'copy' must be at least 0"):
        Copy(seed=-1)


def test_next_token_keeps_the_last_token_as_a_target_only():
    examples = next_token(np.array([[4, 5, 6, 7]]), answer=2)
    assert examples.tokens.tolist() == [[4, 5, 6]]
    assert examples.targets.tolist() == [[5, 6, 7]]
    assert examples.answer.tolist() == examples.loss_mask.tolist() == [[False, True, True]]


def test_a_users_task_needs_only_vocabulary_length_and_draw():
    batch = Parity().split("valid", 50)
    assert torch.equal(batch.targets[:, -1], batch.tokens[:, :8].sum(dim=1) % 2)
    assert (Parity.name, Parity.version, Parity.layout, Parity.sign) == ("parity", 1, "sequences", 1)


def test_the_original_answer_is_the_answer_unless_a_task_says_otherwise():
    batch = Parity().fresh(4, index=0, seed=0)
    assert torch.equal(Parity().original_answer(batch), batch.answer)


def test_tokens_are_rendered_as_numbers_unless_a_task_says_otherwise():
    assert Parity().render(torch.tensor([0, 2, 1])) == "0 2 1"


@pytest.mark.parametrize(
    "fact", ["parity (version 1)", "eight bits and their parity", "9 tokens", "3 kinds", "100000 train"]
)
def test_a_description_says_what_the_task_is(fact):
    assert fact in Parity().describe()


@dataclass(frozen=True, kw_only=True)
class Broken(Task):
    """Draws what it is told to, whether it fits or not."""

    examples: Examples
    vocabulary = 3
    total_length = 2

    def draw(self, generator, count):
        return Examples(*(np.tile(column, (count, 1)) for column in self.examples))


RIGHT = Examples(np.array([1, 2]), np.array([2, 0]), np.array([True, True]), np.array([False, True]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tokens": np.array([1, 2, 1])}, r"drew tokens of shape \(\d+, 3\) .* expected int64 of shape"),
        ({"targets": np.array([0.5, 1.0])}, "drew targets .* type float64; expected int64"),
        ({"loss_mask": np.array([1, 1])}, "drew loss_mask .* type int64; expected bool"),
        ({"tokens": np.array([1, 3])}, "drew tokens from 1 to 3; ids must be 0 to 2, as vocabulary=3"),
        ({"targets": np.array([-1, 0])}, "drew targets from -1 to 0; ids must be 0 to 2"),
        ({"loss_mask": np.array([True, False])}, "drew an answer outside of loss_mask"),
        ({"targets": np.array([0, 0])}, "drew a target under the loss that is not the next token"),
    ],
    ids=["shape", "type", "mask type", "id too large", "negative id", "answer", "not the next token"],
)
def test_a_draw_that_breaks_its_promise_is_an_error(wrong, message):
    with pytest.raises(ConfigError, match=message):
        Broken(examples=RIGHT._replace(**wrong)).fresh(1, index=0, seed=0)
