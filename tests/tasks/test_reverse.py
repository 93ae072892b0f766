"""The reverse task: X, 1, X backwards."""

import numpy as np
import pytest

from rmt.errors import ConfigError
from rmt.tasks.reverse import Reverse

EXAMPLE = np.array([[5, 3, 9, 2]])


def test_the_worked_example_of_the_original_data():
    examples = Reverse(length=4, symbols=10).examples_of(EXAMPLE)
    assert examples.tokens.tolist() == [[5, 3, 9, 2, 1, 2, 9, 3]]
    assert examples.targets.tolist() == [[3, 9, 2, 1, 2, 9, 3, 5]]


def test_the_loss_and_the_answer_are_the_last_length():
    examples = Reverse(length=4).examples_of(EXAMPLE)
    assert examples.loss_mask.tolist() == examples.answer.tolist() == [[False] * 4 + [True] * 4]


@pytest.mark.parametrize(("length", "total"), [(1, 2), (24, 48), (120, 240)])
def test_a_sequence_is_two_lengths_long(length, total):
    assert Reverse(length=length).total_length == total


def test_an_error_names_the_task():
    with pytest.raises(ConfigError, match="of task 'reverse'"):
        Reverse(length=-1)
