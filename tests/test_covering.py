"""Quick tests of a law have every value of every parameter; slow ones are the other combinations."""

from itertools import product
from types import SimpleNamespace

import pytest

from tests.covering import covering, in_turns, mark_slow, quick

VALUES = {"kind": ["a", "b", "c", "d", "e"], "depth": [0, 1, None], "is_cut": [False, True]}
COMBINATIONS = [dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values())]


def test_every_value_is_covered_by_as_few_combinations_as_the_longest_parameter_has_values():
    chosen = [COMBINATIONS[number] for number in covering(COMBINATIONS)]
    assert len(chosen) == 5
    for name, values in VALUES.items():
        uses = [[each[name] for each in chosen].count(value) for value in values]
        assert min(uses) > 0
        assert max(uses) - min(uses) <= 1


class Case:
    """A test as it is collected."""

    def __init__(self, name: str, *markers: str, **values: object):
        self.nodeid, self.markers, self.callspec = name, [*markers], SimpleNamespace(params=values)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None

    def add_marker(self, name: str) -> None:
        self.markers.append(name)


def test_the_other_combinations_of_a_marked_test_are_slow():
    law = [Case(f"law[{number}]", "covering", **values) for number, values in enumerate(COMBINATIONS)]
    slow = Case("law[30]", "covering", "slow", kind="f", depth=0, is_cut=False)
    whole = [Case(f"whole[{number}]", **values) for number, values in enumerate(COMBINATIONS)]
    mark_slow([*law, slow, *whole])
    assert sum("slow" not in case.markers for case in law) == 5
    assert slow.markers.count("slow") == 1
    assert not any(case.markers for case in whole)


def test_in_all_turns_everything_gets_every_value_and_the_first_turn_is_quick():
    turns = in_turns("abc")
    assert [case.values[0] for case in turns] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert [bool(case.marks) for case in turns] == [False, True, True]


def test_cases_that_are_not_named_are_slow():
    marked = {case.id: [mark.name for mark in case.marks] for case in quick({"a": 1, "b": 2}, "b")}
    assert marked == {"a": ["slow"], "b": []}
    with pytest.raises(AssertionError):
        quick({"a": 1}, "c")
