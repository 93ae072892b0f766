"""The README keeps its promises: its code runs, its numbers are those of the results; links: test_docs.py."""

from __future__ import annotations

import importlib
import json
import re
import statistics
from pathlib import Path
from types import ModuleType

import pytest

from rmt.config import from_dict
from rmt.documents.config import FinetuneConfig
from rmt.seal import unsealed

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TABLES = (  # files in results whose table is on a page there
    "algorithmic",
    "algorithmic-scaled-init",
    "retrieval-quadratic",
    "retrieval-3-5000-steps",
    "text-enwik8-prefix",
    "text-wikitext-2",
    "hyperpartisan",
    "hyperpartisan-repeat",
)
CELLS = ("paper-gpu", "paper-gpu-unfinished")  # what rmt reproduce trained

PAGES = ("algorithmic", "language-modelling", "hyperpartisan", "paper-gpu")
LANGUAGE_MODELS = ("text-wikitext-2", "text-enwik8-prefix")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def results(name: str) -> list[dict]:
    return [json.loads(line) for line in (ROOT / f"results/{name}.jsonl").read_text().splitlines()]


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that makes the table and the figure."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("summary")


def test_the_eight_lines_are_eight_and_print_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    code, *_ = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) == 8
    exec(code, {})
    assert capsys.readouterr().out.strip() == re.search(r"print\(.*# (\d+):", code)[1]


def test_the_other_eight_lines_are_those_of_the_page_on_pretrained_models() -> None:
    page = (ROOT / "docs/huggingface.md").read_text()
    assert blocks("python")[1] in page  # which tests/hf runs, with small weights and with real ones


def test_the_session_prints_what_is_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[2], {})
    assert capsys.readouterr().out == blocks("text")[0]


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^\$ make (\S+)", README, re.MULTILINE)
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)


def test_the_table_is_what_was_measured(summary: ModuleType) -> None:
    assert summary.table(summary.rows()) in README


def test_the_figure_is_drawn(summary: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    summary.draw(tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 10_000
    assert (ROOT / "docs/results.png").stat().st_size < 150_000


def test_the_words_below_the_table_are_what_was_measured() -> None:
    times = [carried(name, "transformer_xl") / carried(name, "rmt") for name in LANGUAGE_MODELS]
    assert "with {:.0f} and {:.0f} times the state".format(*times) in README
    assert carried("retrieval-quadratic", "transformer_xl") == 6 * carried("retrieval-quadratic", "rmt")


def test_models_of_a_row_of_the_newer_recipe_had_the_same(summary: ModuleType) -> None:
    rows = [row for row in summary.algorithmic() if row.recipe == "modern-2"]
    assert len(rows) >= 8
    for row in rows:
        assert [len(row.values[model]) for model in summary.MODELS] == [5, 5, 2]
    cells = [cell for cell in results("paper-gpu") if cell["cell"]["exhibits"] == ["figure-3"]]
    assert {(tuple(cell["cell"]["rates"]), cell["config"]["recipe"]) for cell in cells} == {
        ((0.0025, 0.005, 0.01), "modern-2")
    }
    assert {run["steps"] for cell in cells for run in cell["runs"]} == {3000}


def test_the_words_on_transformer_xl_are_what_was_measured(summary: ModuleType) -> None:
    row = next(row for row in summary.algorithmic() if row.title == "copy-24, 9 segments")
    values = row.values["transformer_xl"]
    mean, spread = statistics.mean(values), statistics.stdev(values)
    assert f"it has {mean:.3f} ± {spread:.3f} (its best seed {max(values):.3f}), where" in README
    level = ("copy-24, 3", "copy-24, 6", "reverse-24, 2", "retrieval, 2", "retrieval, 3")
    means = [
        (statistics.mean(row.values["rmt"]), statistics.mean(row.values["transformer_xl"]))
        for row in summary.algorithmic()
        if row.title.removesuffix(" segments") in level
    ]
    assert len(means) == len(level)
    assert max(rmt - cache for rmt, cache in means) < 0.001


def test_the_words_on_memory_without_gradient_are_what_was_measured() -> None:
    bits = {
        (run["model"], run["config"]["bptt"]["depth"]): run["value"]
        for run in results("text-enwik8-prefix")
        if run["recipe"] == "modern"
    }
    plain = bits["baseline", 0]
    assert f"memory gains {plain - bits['rmt', 2]:.3f} bits per byte" in README
    assert f"{plain - bits['rmt', 0]:.3f} of them at depth 0" in README


def carried(name: str, model: str) -> int:
    """The bytes of state of the largest run of a model."""
    return max(run["state_bytes"] for run in results(name) if run["model"] == model)


def test_the_words_on_documents_are_what_was_measured() -> None:
    means = {
        cell["cell"]["name"].removeprefix("hyperpartisan-"): statistics.mean(
            run["value"] for run in cell["runs"]
        )
        for cell in results("paper-gpu")
        if cell["cell"]["exhibits"] == ["table-3"]
    }
    backbones = [name.removesuffix("-1") for name in means if name.endswith("-1")]
    assert len(backbones) == 3
    gains = {
        other: sorted(means[f"{name}-4"] - means[f"{name}-{other}"] for name in backbones)
        for other in ("1", "4-mean")
    }
    assert f"adds {gains['1'][0]:.3f} to {gains['1'][-1]:.3f} of F1 to the plain model" in README
    assert f"{gains['4-mean'][0]:.3f} to {gains['4-mean'][-1]:.3f} to the mean of its answers" in README


def test_the_words_on_depth_are_what_was_measured() -> None:
    trials = [
        run["value"]
        for run in results("paper-gpu-unfinished")
        if (run["config"]["bptt"]["depth"], run["config"]["task"]["segments"]) == (0, 3)
    ]
    solved, *others = sorted(trials, reverse=True)
    others = " and ".join(f"{value:.3f}" for value in others)
    assert f"one rate of three: {solved:.3f} after 3,000 updates, {others} at" in README
    cut = {
        run["config"]["task"]["segments"]: run
        for run in results("algorithmic")
        if run["config"]["bptt"]["depth"] == 0
    }
    assert {run["steps"] for run in cut.values()} == {1000}
    assert max(cut[6]["value"], cut[9]["value"]) < 0.14


@pytest.mark.parametrize("page", ["README.md", "docs/huggingface.md"])
def test_predict_takes_the_folder_that_the_line_before_it_made(page: str) -> None:
    from rmt.cli.finetune import COMMAND
    from rmt.documents.naming import tuning_folder

    lines = re.findall(
        r"^\$ rmt finetune (.*)\n(?:[^$].*\n)*\$ rmt predict (\S+)", (ROOT / page).read_text(), re.MULTILINE
    )
    assert lines
    for finetune, folder in lines:
        config = from_dict(FinetuneConfig, COMMAND.collect(finetune.split()).settings)
        assert tuning_folder(config).as_posix() == folder


@pytest.mark.parametrize("name", [*TABLES, "text-small"])
def test_a_result_has_everything_that_makes_it_a_result(name: str) -> None:
    needed = {
        "config",
        "recipe",
        "seed",
        "steps",
        "samples",
        "seconds",
        "environment",
        "metric",
        "value",
        "command",
    }
    for line in (ROOT / f"results/{name}.jsonl").read_text().splitlines():
        result = json.loads(line)
        assert needed <= result.keys()
        assert {"commit", "device", "torch"} <= result["environment"].keys()


@pytest.mark.parametrize("file", sorted((ROOT / "results").glob("*.jsonl")), ids=lambda file: file.stem)
def test_published_records_are_whole(file: Path) -> None:
    for line in file.read_text().splitlines():
        unsealed(json.loads(line), file, "publish it again")


def test_the_table_of_the_results_page_is_what_the_report_prints(capsys: pytest.CaptureFixture[str]) -> None:
    from rmt.cli.main import main

    pages = [(ROOT / f"results/{name}.md").read_text() for name in PAGES]
    page = "\n".join(pages)
    for name in (*TABLES, *CELLS):
        assert main(["report", str(ROOT / f"results/{name}.jsonl")]) == 0
        assert capsys.readouterr().out.strip() in page


def test_the_page_of_what_was_reproduced_is_what_the_report_writes(tmp_path: Path) -> None:
    from rmt.cli.main import main

    page = tmp_path / "page.html"
    assert main(["report", str(ROOT / "results/paper-gpu.jsonl"), "--html", str(page)]) == 0
    assert page.read_text() == (ROOT / "results/paper-gpu.html").read_text()
