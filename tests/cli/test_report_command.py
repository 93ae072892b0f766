"""`rmt report`: every finished run has its table, whatever it has learned; else a line says why."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import rmt
from tests.documents.made_results import LANGUAGE, REGRESSION, of_seed

COPY = Path(__file__).parents[1] / "release" / "17fc2a8" / "copy-rmt"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_run(name, result):
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))


def tables(out: str) -> list[list[dict[str, str]]]:
    """The rows of each table, by headings."""
    parsed = []
    for block in out.strip().split("\n\n"):
        heading, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.split("\n")
        )
        parsed.append([dict(zip(heading, row, strict=True)) for row in rows])
    return parsed


def test_a_language_model_has_its_perplexities(capsys):
    write_run("lm", LANGUAGE)
    write_run("lm-1", of_seed(LANGUAGE, 1, carried=14.5))
    answer = rmt(capsys, "report")
    assert (answer.code, answer.err) == (0, "")
    [[row]] = tables(answer.out)
    assert row == {
        "data": "novel.txt",
        "backbone": "gpt2",
        "segments and cache": "2 segments of 8 tokens, a cache of 4",
        "memory": "2",
        "depth": "full",
        "seeds": "2",
        "carried": "14.00 ± 0.71",
        "memory reset": "13.55 ± 0.00",
        "reset": "13.60 ± 0.00",
    }


def test_a_comparison_adds_its_columns_and_runs_without_it_have_dashes(capsys):
    write_run("lm", LANGUAGE)
    arms = {"plain": 15.0, "cache": 14.0, "full_attention": 12.0}
    compared = of_seed(LANGUAGE, 0, **arms)
    write_run("compared", {**compared, "config": {**compared["config"], "compare": "all"}})
    [[with_arms, alone]] = tables(rmt(capsys, "report").out)
    names = ("cache", "plain", "full attention")
    assert [with_arms[name] for name in names] == ["14.00 (1 seed)", "15.00 (1 seed)", "12.00 (1 seed)"]
    assert [alone[name] for name in names] == ["–"] * 3


def test_a_regression_has_its_own_scores(capsys):
    write_run("prices", REGRESSION)
    answer = rmt(capsys, "report runs/prices")
    assert (answer.code, answer.err) == (0, "")
    [[row]] = tables(answer.out)
    assert row["task"] == "regression"
    scores = {name: value for name, value in row.items() if name.endswith(", test")}
    assert scores == {
        "mse, test": "0.250 (1 seed)",
        "mae, test": "0.500 (1 seed)",
        "pearson, test": "-0.125 (1 seed)",
    }


def test_runs_of_all_kinds_have_their_tables_side_by_side(capsys):
    shutil.copytree(COPY, "runs/copy")
    write_run("lm", LANGUAGE)
    write_run("prices", REGRESSION)
    answer = rmt(capsys, "report")
    assert (answer.code, answer.err) == (0, "")
    kinds = [next(iter(rows[0].values())) for rows in tables(answer.out)]
    assert kinds == ["copy-4", "prices.jsonl", "novel.txt"]


@pytest.mark.parametrize("result", [b"{", json.dumps({**LANGUAGE, "metrics": {"test": {}}}).encode()])
def test_a_run_that_cannot_be_shown_is_passed_over_with_a_line(capsys, result):
    write_run("prices", REGRESSION)
    write_run("odd", {})
    Path("runs/odd/result.json").write_bytes(result)
    answer = rmt(capsys, "report")
    assert answer.code == 0
    assert answer.err.startswith("rmt: passed over: 'runs/odd/result.json' ")
    assert answer.err.count("\n") == 1
    assert "prices.jsonl" in answer.out
    named = rmt(capsys, "report runs/prices runs/odd/result.json")
    assert named.code == 2, "a file that was named is not passed over"


@pytest.mark.parametrize("damaged", ["odd/result.json", "cell/cell.json"])
def test_a_run_is_shown_where_only_a_cell_or_another_run_is_damaged(capsys, damaged):
    write_run("prices", REGRESSION)
    file = Path("runs", damaged)
    file.parent.mkdir()
    file.write_text("{")
    answer = rmt(capsys, "report")
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert answer.err.startswith(f"rmt: passed over: 'runs/{damaged}' ")
    assert "prices.jsonl" in answer.out


def test_a_run_is_counted_once_however_often_it_is_named(capsys):
    write_run("lm", LANGUAGE)
    write_run("lm-1", of_seed(LANGUAGE, 1, carried=14.5))
    once = rmt(capsys, "report runs").out
    assert rmt(capsys, "report runs runs/lm runs/../runs/lm-1/result.json").out == once


def test_a_place_without_results_is_one_line(capsys):
    Path("empty").mkdir()
    for path, reason in (
        ("nofile", "'nofile' does not exist"),
        ("nofile.jsonl", "'nofile.jsonl' does not exist"),
        ("empty", "no finished run is in empty"),
    ):
        answer = rmt(capsys, f"report {path}")
        remedy = "name run folders or .jsonl files, or train one first"
        assert (answer.code, answer.out, answer.err) == (2, "", f"rmt: {reason}; {remedy}\n")
