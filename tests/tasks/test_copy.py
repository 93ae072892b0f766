"""The copy task: X, 1, X, X."""

import numpy as np
import pytest

from rmt.errors import ConfigError
from rmt.tasks.copy import Copy

EXAMPLE = np.array([[5, 3, 9, 2]])


def test_the_worked_example_of_the_original_data():
    examples = Copy(length=4, symbols=10).examples_of(EXAMPLE)
    assert examples.tokens.tolist() == [[5, 3, 9, 2, 1, 5, 3, 9, 2, 5, 3, 9]]
    assert examples.targets.tolist() == [[3, 9, 2, 1, 5, 3, 9, 2, 5, 3, 9, 2]]


def test_the_loss_and_the_answer_are_the_last_two_lengths():
    examples = Copy(length=4).examples_of(EXAMPLE)
    assert examples.loss_mask.tolist() == examples.answer.tolist() == [[False] * 4 + [True] * 8]


@pytest.mark.parametrize(("length", "vocabulary"), [(4, 12), (24, 12), (25, 10), (120, 10), (360, 10)])
def test_short_sequences_use_ten_symbols_and_long_ones_eight(length, vocabulary):
    assert Copy(length=length).vocabulary == vocabulary


def test_the_number_of_symbols_can_be_chosen():
    task = Copy(length=6, symbols=3)
    sources = task.draw(np.random.default_rng(0), 200).tokens[:, :6]
    assert task.vocabulary == 5
    assert set(sources.flat) == {2, 3, 4}


@pytest.mark.parametrize(("length", "total"), [(1, 3), (24, 72), (360, 1080)])
def test_a_sequence_is_three_lengths_long(length, total):
    assert Copy(length=length).total_length == total


def test_symbols_are_uniform():
    symbols = Copy().draw(np.random.default_rng(0), 2000).tokens[:, :24]
    share = np.bincount(symbols.ravel(), minlength=12) / symbols.size
    assert share[2:] == pytest.approx(np.full(10, 0.1), abs=0.01)


def test_rendering_names_symbols_from_zero_and_shows_the_start():
    assert Copy(length=4).render([5, 3, 9, 2, 1, 0]) == "3 1 7 0 | ."


def test_an_alphabet_of_a_hundred_thousand_has_a_tokenizer_within_a_moment():
    assert Copy(symbols=100_000).tokenizer().decode([100_001]) == "99999"


@pytest.mark.parametrize(
    "options", [{"length": 0}, {"symbols": 1}, {"symbols": 0}, {"length": 2**62}, {"symbols": 2**62}], ids=str
)
def test_impossible_sizes_are_errors_that_name_the_field(options):
    ((field, value),) = options.items()
    with pytest.raises(ConfigError, match=f"{field}={value} of task 'copy' must be at least"):
        Copy(**options)
