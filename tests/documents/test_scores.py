"""Accuracy and F1."""

import pytest

from rmt.documents.scores import scores


def test_f1_of_two_classes_is_that_of_the_second():
    assert scores([1, 1, 0, 0, 1], [1, 0, 0, 1, 1], 2) == {"accuracy": 0.6, "f1": pytest.approx(2 / 3)}


def test_f1_of_more_classes_is_their_mean():
    assert scores([0, 1, 2, 2], [0, 1, 1, 2], 3)["f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)


def test_what_is_no_class_is_wrong():
    assert scores([-1, 1], [1, 1], 2) == {"accuracy": 0.5, "f1": pytest.approx(2 / 3)}


def test_a_class_that_nobody_named_has_no_f1():
    assert scores([0, 0], [0, 0], 2) == {"accuracy": 1.0, "f1": 0.0}
