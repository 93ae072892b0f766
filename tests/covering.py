"""Many combinations of settings: a few, which have every value, are quick tests, the others slow ones."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pytest


def quick(cases: Mapping[str, Any], *names: str) -> list[Any]:
    """Parameters by their names; all but these are slow."""
    assert set(names) <= set(cases)
    return [
        pytest.param(case, id=name, marks=() if name in names else pytest.mark.slow)
        for name, case in cases.items()
    ]


def in_turns(values: Sequence[Any]) -> list[Any]:
    """Orders in which values are dealt out, so that everything gets every value; the first is quick."""
    orders = {f"turn-{first}": [*values[first:], *values[:first]] for first in range(len(values))}
    return quick(orders, "turn-0")


def mark_slow(items: Sequence[pytest.Item]) -> None:
    """Of every test that is marked `covering`, make all but a few combinations slow."""
    tests = defaultdict[str, list[Any]](list)
    for item in items:
        if item.get_closest_marker("covering") and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        combinations = [case.callspec.params for case in cases]
        for number in set(range(len(cases))) - set(covering(combinations)):
            cases[number].add_marker("slow")


def covering(combinations: Sequence[Mapping[str, Any]]) -> list[int]:
    """A few combinations, by number, in which every value of every parameter is, each about equally often."""
    rows = [{(name, id(value)) for name, value in values.items()} for values in combinations]
    chosen, uses, missing = list[int](), Counter[tuple[str, int]](), set().union(*rows)

    def gain(number: int) -> tuple[int, int]:
        return len(rows[number] & missing), -sum(uses[value] for value in rows[number])

    while missing:
        chosen.append(max(range(len(rows)), key=gain))
        missing -= rows[chosen[-1]]
        uses.update(rows[chosen[-1]])
    return chosen
