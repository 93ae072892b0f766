"""The recall task: X, other symbols, 1, X."""

import numpy as np
import pytest

from rmt.errors import ConfigError
from rmt.tasks.copy import FIRST_SYMBOL
from rmt.tasks.recall import Recall

SYMBOLS = np.array([[5, 3, 9, 4, 7]])


def test_a_worked_example():
    examples = Recall(length=2, delay=3).examples_of(SYMBOLS)
    assert examples.tokens.tolist() == [[5, 3, 9, 4, 7, 1, 5]]
    assert examples.targets.tolist() == [[3, 9, 4, 7, 1, 5, 3]]
    assert examples.loss_mask.tolist() == examples.answer.tolist() == [[False] * 5 + [True] * 2]


@pytest.mark.parametrize(("length", "delay", "total"), [(1, 0, 2), (8, 16, 32), (24, 100, 148)])
def test_a_sequence_is_two_lengths_and_the_delay(length, delay, total):
    task = Recall(length=length, delay=delay)
    assert task.total_length == total
    assert task.draw(np.random.default_rng(0), 3).tokens.shape == (3, total)


def test_the_symbols_in_between_say_nothing_about_the_answer():
    """They are drawn alike and apart: the same symbol in both is as likely as chance."""
    tokens = Recall(length=1, delay=1, symbols=4).draw(np.random.default_rng(0), 4000).tokens
    assert set(tokens[:, 1].tolist()) == set(range(FIRST_SYMBOL, FIRST_SYMBOL + 4))
    assert (tokens[:, 0] == tokens[:, 1]).mean() == pytest.approx(0.25, abs=0.02)


def test_a_curriculum_over_length_keeps_the_delay():
    assert Recall(length=8, delay=5).with_length(2) == Recall(length=2, delay=5, symbols=10)


def test_an_error_names_the_delay():
    with pytest.raises(ConfigError, match="delay=-1 of task 'recall' must be at least 0"):
        Recall(delay=-1)
