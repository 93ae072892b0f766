"""How far back a task asks, counted by hand."""

from rmt.experiments.distance import asked, distances_of


def test_copy_asks_for_its_source_once_and_then_for_its_first_copy():
    assert asked("copy", 72, 8, 24) == {3: 24, 4: 24, 5: 24, 6: 23, 7: 23, 8: 23}


def test_reverse_asks_farther_in_each_segment():
    assert asked("reverse", 48, 8, 24) == {3: 8, 4: 24, 5: 40}


def test_retrieval_asks_for_the_first_pair():
    settings = {"task": {"name": "retrieval", "segments": 2, "length": None}}
    assert distances_of(settings) == {1: 5}


def test_of_equations_nothing_is_said():
    assert distances_of({"task": {"name": "quadratic", "segments": 6, "length": None}}) == {}
