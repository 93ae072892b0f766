"""The gallery tells what was measured and shows pictures that are there."""

import json
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
GALLERY = (DOCS / "gallery.md").read_text(encoding="utf-8")
RESULTS = (DOCS.parent / "results/reverse-order.jsonl").read_text().splitlines()
AFTER_COPY = (DOCS.parent / "results/reverse-after-copy.jsonl").read_text().splitlines()
SEEDS = 6  # runs of the example; the others are what else was tried


def test_every_picture_of_the_gallery_exists():
    shown = set(re.findall(r"\]\(([\w-]+\.png)\)", GALLERY))
    assert {"explorer-desktop.png", "explorer-phone.png", "operations.png"} <= shown
    assert [name for name in shown if not (DOCS / name).exists()] == []


def test_the_gallery_counts_the_reverse_models_rightly():
    runs = [json.loads(line) for line in RESULTS]
    orders = Counter(run["write"]["order"] for run in runs)
    assert orders["reversed"] == 0
    text = " ".join(GALLERY.split())
    assert f"Of {len(runs)} reverse models" in text
    assert (
        f"straight in {orders['straight']}, in no clear order in {orders['mixed']}, and reversed in none"
        in text
    )
    backwards = [run["composition"]["reversed"] > run["composition"]["straight"] for run in runs]
    assert all(backwards)
    assert f"in all {len(backwards)}" in text


def test_the_gallery_counts_the_reverse_models_after_copy_rightly():
    runs = [json.loads(line) for line in AFTER_COPY]
    solved = [
        Counter(run["write"]["order"] for run in some if run["accuracy"] >= run["target"])
        for some in (runs[:SEEDS], runs[SEEDS:])
    ]
    seeds, others = solved
    assert [run["seed"] for run in runs[:SEEDS]] == list(range(SEEDS))
    assert set(seeds) == {"reversed", "mixed"}
    text = " ".join(GALLERY.split())
    assert f"Of {SEEDS} seeds, {seeds['reversed']} solve the task and write backwards" in text
    assert (
        f"{seeds['mixed']} solves it in no clear order, and {SEEDS - seeds.total()} are not at 0.99" in text
    )
    assert f"{len(runs) - SEEDS} other runs after copy" in text
    told = f"{others.total()} of these solve the task, {others['reversed']} of the {others.total()} write"
    assert told in text


@pytest.mark.parametrize("name", ["copy", "reverse", "rewrite", "compress", "mix"])
def test_the_commands_of_the_gallery_are_those_of_its_pictures(name):
    models = runpy.run_path(str(DOCS / "pictures.py"))["MODELS"]
    assert f"$ rmt train {models[name]}\n" in GALLERY
