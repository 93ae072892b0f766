"""The README keeps its promises: its code runs, its links exist, its numbers are those of the results."""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from pathlib import Path

import pytest

from rmt.cli.main import COMMANDS
from rmt.config import from_dict
from rmt.documents.config import FinetuneConfig
from rmt.experiments.paper import PUBLISHED, PublishedCell

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

PAGES = ("algorithmic", "language-modelling", "hyperpartisan")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def results() -> list[dict]:
    return [json.loads(line) for line in (ROOT / "results/algorithmic.jsonl").read_text().splitlines()]


def values(task: str, segments: int, model: str, field: str) -> list[float]:
    """A field of the full-depth runs of one cell."""
    return [
        result[field]
        for result in results()
        if result["task"] == task and result["model"] == model and result["config"]["bptt"]["depth"] == "full"
        if result["config"]["task"]["segments"] == segments
    ]


def test_the_eight_lines_are_eight_and_print_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) == 8
    exec(code, {})
    assert capsys.readouterr().out.strip() == re.search(r"print\(.*# (\d+):", code)[1]


def test_the_other_eight_lines_are_those_of_the_page_on_pretrained_models() -> None:
    page = (ROOT / "docs/huggingface.md").read_text()
    assert blocks("python")[1] in page  # which tests/hf runs, with small weights and with real ones


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [target for target in targets if "://" not in target and not (ROOT / target).exists()]
    assert targets
    assert not missing


def test_every_command_exists() -> None:
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines() if line]
    makefile = (ROOT / "Makefile").read_text()
    assert lines
    for program, word in (line.split()[:2] for line in lines):
        assert word in COMMANDS if program == "rmt" else f"\n{word}:" in makefile, f"{program} {word}"


def rows() -> list[list[str]]:
    table = [line for line in README.splitlines() if re.match(r"\| (copy|reverse)-24 ", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} in {row[1]}")
def test_a_row_of_the_table_is_what_was_measured(row: list[str]) -> None:
    task, segments = row[0].removesuffix("-24"), int(row[1])
    ours = values(task, segments, "rmt", "value")
    assert len(ours) == 5
    assert row[2] == f"{statistics.mean(ours):.3f} ± {statistics.stdev(ours):.3f}"
    assert row[3] == f"{statistics.median(values(task, segments, 'rmt', 'steps')):,.0f}"
    memory = {"copy": 72, "reverse": 48}[task] // segments
    paper = PUBLISHED[PublishedCell(row[0], segments, "rmt", memory)]
    (steps,) = paper.budgets
    assert row[4:6] == [f"{paper.mean:.3f} ± {paper.deviation:.3f}", f"{steps:,}"]
    (theirs,) = values(task, segments, "transformer_xl", "value")
    published = PUBLISHED[PublishedCell(row[0], segments, "transformer_xl", memory)]
    assert row[6:] == [f"{theirs:.3f}", f"{published.mean:.3f} ± {published.deviation:.3f}"]


def test_all_six_cells_are_in_the_table() -> None:
    assert [(row[0], row[1]) for row in rows()] == [
        *(("copy-24", str(segments)) for segments in (3, 6, 9)),
        *(("reverse-24", str(segments)) for segments in (2, 4, 6)),
    ]


def test_the_sentence_on_the_other_tasks_is_what_was_measured() -> None:
    lines = (ROOT / "results/retrieval-quadratic.jsonl").read_text().splitlines()
    ours = [result for result in map(json.loads, lines) if result["model"] == "rmt"]
    means = []
    for task, segments in (("retrieval", 2), ("retrieval", 3), ("retrieval", 5), ("quadratic", 6)):
        cell = [
            result["value"]
            for result in ours
            if (result["task"], result["config"]["task"]["segments"]) == (task, segments)
        ]
        assert len(cell) == 3
        means.append(f"{statistics.mean(cell):.3f}")
    assert f"in 2, 3, 5 segments {', '.join(means[:3])} (paper" in README
    assert f"in 6 segments {means[3]} of whole answers" in README
    assert max(result["steps"] for result in ours) == 8000
    lowest = min(result["value"] for result in ours)
    assert f"one seed in 3 segments stays at {lowest:.3f}" in README


def test_the_sentence_on_language_models_is_what_was_measured() -> None:
    lines = (ROOT / "results/text-wikitext-2.jsonl").read_text().splitlines()
    runs = {
        (result["model"], result["config"]["bptt"]["depth"]): result
        for result in map(json.loads, lines)
        if result["recipe"] == "modern"
    }
    plain, cached = runs["baseline", 0], runs["transformer_xl", 0]
    inside, across = runs["rmt", 0], runs["rmt", 2]
    times = cached["state_bytes"] / across["state_bytes"]
    sentence = (
        f"{plain['value']:.1f} for the plain Transformer, {inside['value']:.1f} for RMT that learns inside "
        f"its segments only, {across['value']:.1f} for RMT that learns across two borders, and "
        f"{cached['value']:.1f} for Transformer-XL, whose cache is {times:.0f} times as large as RMT's state"
    )
    assert sentence in README


def test_the_sentence_on_documents_is_what_was_measured() -> None:
    lines = (ROOT / "results/hyperpartisan.jsonl").read_text().splitlines()
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for result in map(json.loads, lines):
        cells[result["config"]["segments"], result["config"]["memory"]].append(result["value"])
    found = {
        cell: f"{statistics.mean(some):.3f} ± {statistics.stdev(some):.3f}" for cell, some in cells.items()
    }
    assert {len(some) for some in cells.values()} == {5}
    assert f"{found[1, 0]} for the plain model" in README
    assert ", ".join(found[segments, 10] for segments in (1, 2, 3, 4)) + " with ten memory tokens" in README
    again = json.loads((ROOT / "results/hyperpartisan-repeat.jsonl").read_text().splitlines()[0])
    assert again["seed"] == 0
    assert f"run twice, had {cells[4, 10][0]:.3f} and {again['value']:.3f}" in README


@pytest.mark.parametrize("page", ["README.md", "docs/huggingface.md"])
def test_predict_takes_the_folder_that_the_line_before_it_made(page: str) -> None:
    from rmt.cli.finetune import COMMAND, default_folder

    lines = re.findall(
        r"^\$ rmt finetune (.*)\n\$ rmt predict (\S+)", (ROOT / page).read_text(), re.MULTILINE
    )
    assert lines
    for finetune, folder in lines:
        config = from_dict(FinetuneConfig, COMMAND.collect(finetune.split()).settings)
        assert default_folder(config).as_posix() == folder


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


def test_the_table_of_the_results_page_is_what_the_report_prints(capsys: pytest.CaptureFixture[str]) -> None:
    from rmt.cli.main import main

    pages = [(ROOT / f"results/{name}.md").read_text() for name in PAGES]
    page = "\n".join(pages)
    for name in TABLES:
        assert main(["report", str(ROOT / f"results/{name}.jsonl")]) == 0
        assert capsys.readouterr().out.strip() in page
