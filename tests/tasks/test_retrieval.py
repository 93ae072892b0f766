"""Associative retrieval: k1 v1 … kN vN kq | -> vq."""

import numpy as np
import pytest

from rmt.errors import ConfigError
from rmt.tasks.retrieval import Retrieval, recall

SRC = [29, 3, 13, 9, 34, 0, 16, 4, 13, 10]


def test_the_worked_example_of_the_original_data():
    examples = recall(np.array([[29, 13, 34, 16]]), np.array([[3, 9, 0, 4]]), np.array([[1]]))
    assert examples.tokens.tolist() == [SRC]
    assert examples.targets.tolist() == [[*SRC[1:], 9]]


def test_only_the_last_position_is_under_the_loss():
    examples = Retrieval().draw(np.random.default_rng(0), 3)
    assert examples.loss_mask.tolist() == examples.answer.tolist() == [[False] * 9 + [True]] * 3


def test_the_task_has_the_vocabulary_and_length_of_the_original_data():
    assert (Retrieval().vocabulary, Retrieval().total_length) == (37, 10)


@pytest.mark.parametrize("pairs", [1, 4, 10])
def test_keys_are_distinct_letters_and_values_distinct_digits(pairs):
    tokens = Retrieval(pairs=pairs).draw(np.random.default_rng(0), 500).tokens
    keys, values = tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2]
    assert (keys.min() >= 11, keys.max() <= 36, values.min() >= 0, values.max() <= 9) == (True,) * 4
    assert all(len(set(row)) == pairs for row in [*keys.tolist(), *values.tolist()])


def test_the_target_is_the_value_of_the_asked_key():
    examples = Retrieval().draw(np.random.default_rng(0), 500)
    for tokens, targets in zip(examples.tokens.tolist(), examples.targets.tolist(), strict=True):
        values = dict(zip(tokens[0:8:2], tokens[1:8:2], strict=True))
        assert (tokens[9], targets[9]) == (10, values[tokens[8]])


def test_every_place_is_asked_for_equally_often():
    tokens = Retrieval().draw(np.random.default_rng(0), 8000).tokens
    share = (tokens[:, 0:8:2] == tokens[:, 8:9]).mean(axis=0)
    assert share == pytest.approx(np.full(4, 0.25), abs=0.02)


def test_rendering_shows_letters_digits_and_the_separator():
    assert Retrieval().render(SRC) == "s 3 c 9 x 0 f 4 c |"


@pytest.mark.parametrize("pairs", [0, 11])
def test_there_are_one_to_ten_pairs(pairs):
    with pytest.raises(ConfigError, match=f"pairs={pairs} of task 'retrieval' must be 1 to 10"):
        Retrieval(pairs=pairs)
