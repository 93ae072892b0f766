"""A table of results: runs of one setting are averaged, runs that differ in more than the seed are not."""

import json
from pathlib import Path

from rmt.experiments.report import load_results, table

STORED = Path(__file__).parents[2] / "results/retrieval-quadratic.jsonl"


def equations() -> list[dict]:
    """The three stored runs of RMT on quadratic equations."""
    results = load_results([STORED], print)
    return [result for result in results if (result["task"], result["model"]) == ("quadratic", "rmt")]


def test_seeds_of_one_setting_are_one_row():
    (row,) = table(equations())
    assert "(3 seeds)" in "".join(row)


def test_two_versions_of_a_task_are_two_rows():
    first, *others = equations()
    rows = table([{**first, "task_version": 2}, *others])
    assert ["(1 seed)" in "".join(row) for row in rows] == [True, False]


def test_a_result_that_names_no_version_is_of_the_first():
    first, *others = equations()
    unnamed = {key: value for key, value in first.items() if key != "task_version"}
    assert len(table([json.loads(json.dumps(unnamed)), *others])) == 1
