"""A table of results: runs of one setting are averaged, runs that differ in more than the seed are not."""

import json
from pathlib import Path

from rmt.experiments.report import report, results_below, table

STORED = Path(__file__).parents[2] / "results/retrieval-quadratic.jsonl"


def equations() -> list[dict]:
    """The three stored runs of RMT on quadratic equations."""
    results, _ = results_below([STORED])
    return [result for result in results if (result["task"], result["model"]) == ("quadratic", "rmt")]


def test_seeds_of_one_setting_are_one_row():
    (row,) = table(equations())
    assert "(3 seeds)" in "".join(row.texts)


def test_two_versions_of_a_task_are_two_rows():
    first, *others = equations()
    rows = table([{**first, "task_version": 2}, *others])
    assert ["(1 seed)" in "".join(row.texts) for row in rows] == [True, False]


def test_a_result_that_names_no_version_is_of_the_first():
    first, *others = equations()
    unnamed = {key: value for key, value in first.items() if key != "task_version"}
    assert len(table([json.loads(json.dumps(unnamed)), *others])) == 1


def test_rows_that_would_look_the_same_say_what_tells_them_apart():
    first, second, third = equations()
    other = json.loads(json.dumps(second))
    other["config"]["optimizer"]["matrix_lr"] = 0.5
    lines = report([first, other, third]).splitlines()
    assert lines[0].endswith("| paper | besides |")
    rate = first["config"]["optimizer"]["matrix_lr"]
    assert [line.split("|")[-2].strip() for line in lines[2:]] == [
        f"matrix_lr {rate:g}",
        "matrix_lr 0.5",
    ]
    assert "besides" not in report([first, second, third])


def test_a_seed_that_ran_twice_is_two_runs_of_one_seed():
    first, second, _ = equations()
    assert "(2 runs of 1 seed)" in report([first, {**second, "seed": first["seed"]}])
