"""The constant answer: what a model comes to that knows no more than how often each token is asked for."""

import numpy as np
import pytest

from rmt.experiments.constant_answer import constant_answer, cross_entropy
from rmt.tasks.registry import make_task
from rmt.text.task import Text
from tests.train.texts import write_corpus


def test_the_constant_answer_of_a_copy_is_right_once_in_as_many_symbols():
    assert constant_answer(make_task("copy", length=6, symbols=5)) == pytest.approx(1 / 5, abs=0.02)


def test_even_counts_take_as_many_bits_as_there_are_choices():
    assert cross_entropy(np.ones(8), np.arange(8)) == pytest.approx(3)


def test_a_text_is_measured_by_its_own_metric(tmp_path):
    task = Text(data=str(write_corpus(tmp_path)))
    bits = cross_entropy(task.target_counts() + 1, task.corpus.tokens("test"))
    expected = bits if task.metric == "bits_per_character" else 2**bits
    assert constant_answer(task) == pytest.approx(expected)
