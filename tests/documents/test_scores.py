"""Scores of answers: classes, sets of classes, numbers, spans and entities."""

import random

import pytest

from rmt.documents.scores import (
    Scoring,
    accuracy,
    class_counts,
    class_f1,
    entities,
    entity_f1,
    number_scores,
    span_scores,
)


def f1(answers, truths, classes, **scoring):
    return class_f1([[a] for a in answers], [[t] for t in truths], classes, Scoring("f1", **scoring))


def test_f1_of_a_named_class_is_that_of_no_other():
    assert f1([1, 1, 0, 0, 1], [1, 0, 0, 1, 1], 2, positive=1) == pytest.approx(2 / 3)
    assert f1([1, 1, 0, 0, 1], [1, 0, 0, 1, 1], 2, positive=0) == pytest.approx(1 / 2)


def test_macro_f1_is_the_mean_over_classes():
    assert f1([0, 1, 2, 2], [0, 1, 1, 2], 3) == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)


def test_weighted_f1_is_the_mean_by_frequency():
    assert f1([0, 1, 2, 2], [0, 1, 1, 2], 3, average="weighted") == pytest.approx((1 + 4 / 3 + 2 / 3) / 4)


def test_micro_f1_of_single_classes_is_accuracy():
    answers, truths = [0, 1, 2, 2, 0], [0, 1, 1, 2, 2]
    assert f1(answers, truths, 3, average="micro") == pytest.approx(accuracy(answers, truths))


def test_what_is_no_class_is_wrong():
    assert accuracy([-1, 1], [1, 1]) == 0.5
    assert f1([-1, 1], [1, 1], 2, positive=1) == pytest.approx(2 / 3)
    assert f1([-1, 1], [1, 1], 2, average="micro") == 0.5


def test_a_class_that_nobody_named_has_no_f1():
    assert f1([0, 0], [0, 0], 2, positive=1) == 0.0


def test_f1_of_sets_counts_each_class():
    answers, truths = [(0, 1), (), (1,)], [(0,), (1,), (1,)]
    assert class_f1(answers, truths, 2, Scoring("f1")) == pytest.approx((1 + 1 / 2) / 2)
    assert class_f1(answers, truths, 2, Scoring("f1", "micro")) == pytest.approx(2 / 3)


def test_the_counts_of_all_classes_are_those_of_each_alone():
    draw = random.Random(0)
    answers, truths = ([draw.sample(range(-1, 5), draw.randrange(4)) for _ in range(50)] for _ in range(2))
    pairs = list(zip(answers, truths, strict=True))
    assert class_counts(answers, truths, 5) == [
        (
            sum(label in answer and label in truth for answer, truth in pairs),
            sum(label in answer for answer in answers),
            sum(label in truth for truth in truths),
        )
        for label in range(5)
    ]


def test_errors_of_numbers_and_their_correlation():
    assert number_scores([1, 2, 3], [2, 4, 6]) == {"mse": 14 / 3, "mae": 2.0, "pearson": pytest.approx(1)}
    assert number_scores([1, 1], [0, 2])["pearson"] == 0.0


def test_spans_are_scored_by_their_tokens():
    assert span_scores([(2, 3), (5, 5)], [(3, 4), (5, 5)]) == {"exact": 0.5, "f1": 0.75}
    assert span_scores([(0, 1)], [(4, 6)])["f1"] == 0.0


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-A I-A O", [(1, 3, "A")]),
        ("B-A B-A I-B", [(0, 1, "A"), (1, 2, "A"), (2, 3, "B")]),
        ("I-A I-A", [(0, 2, "A")]),
        ("noun noun verb O", [(0, 2, "noun"), (2, 3, "verb")]),
        ("O O", []),
    ],
)
def test_entities_are_runs_of_tags(tags, expected):
    assert list(entities(tags.split())) == expected


def test_an_entity_is_right_where_borders_and_type_are():
    truths = [["B-A", "I-A", "O"], ["O", "B-B"]]
    assert entity_f1([["B-A", "O", "O"], ["O", "B-B"]], truths) == 0.5
    assert entity_f1([["B-B", "I-B", "O"], ["B-B", "O"]], truths) == 0.0
