"""The demo: a cache fails by arithmetic, the last line leads to a page, and the page is there."""

import shutil
from pathlib import Path

import pytest

from rmt.errors import RMTError
from rmt.experiments import demo
from rmt.experiments.recipe import resolve
from rmt.experiments.reproduce import Ended
from rmt.experiments.run import train
from rmt.tasks.recall import Recall
from tests.analysis.pages import data_of
from tests.cli.command import rmt
from tests.train.runs import Watcher


@pytest.fixture
def short(monkeypatch):
    """Few test sequences and no other processes: what is measured is not what is tested here."""
    monkeypatch.setattr(Recall, "sizes", {"train": 100, "valid": 8, "test": 8})
    monkeypatch.setitem(demo.EVALUATION, "evaluate_samples", 8)

    def here(cells, folder, launcher, limits, report_ended):
        for cell in cells:
            result, _ = train(resolve(cell.settings), folder / cell.name / "seed-0", Watcher())
            report_ended(Ended(cell, result, ""), 0)

    monkeypatch.setattr(demo, "reproduce", here)


def test_the_last_line_points_to_the_explorer(capsys, tmp_path, short):
    code, out, err = rmt(capsys, "demo --steps 1 --quiet")
    assert (code, err) == (0, "")
    last = out.splitlines()[-1]
    assert last == "explore the memory in your browser: demo/explorer.html"
    data = data_of((tmp_path / "demo" / "explorer.html").read_text(encoding="utf-8"))
    assert (data["title"], len(data["examples"]), data["facts"][0]) == ("rmt demo", 4, "rmt")
    assert [segment["spans"] for segment in data["examples"][0]["segments"]] == [[0, 8, 8, 8]] * 4
    rows = {
        line.split("│")[1].strip(): line.split("│")[3].strip() for line in out.splitlines() if "│" in line
    }
    assert rows == {"baseline": "0 < 17", "transformer_xl": "16 < 17", "rmt": "no limit"}


def test_what_the_cache_must_reach_is_what_changes_the_answer():
    """The nearest symbol of the source is one token further back than the cache of the demo reaches."""
    asked = demo.distance(resolve(demo.settings("transformer_xl", 1)))
    task, length = demo.demonstrated_task()
    batch = task.split("test", 1)
    start = int(batch.answer[0].nonzero()[0]) // length * length
    assert (asked.reach, asked.nearest, asked.furthest) == (16, start - (demo.LENGTH - 1), start)
    assert batch.targets[0][batch.answer[0]].tolist() == batch.tokens[0, : demo.LENGTH].tolist()


def test_a_run_folder_that_was_deleted_is_trained_again(capsys, short):
    assert rmt(capsys, "demo --steps 1 --quiet").code == 0
    Path("demo/rmt/cell.json").write_text("{}")
    shutil.rmtree("demo/rmt/seed-0")
    code, _, err = rmt(capsys, "demo --steps 1 --quiet")
    assert (code, err) == (0, "")
    assert not Path("demo/rmt/cell.json").exists()
    assert Path("demo/rmt/seed-0/result.json").exists()


def test_a_run_that_ends_without_a_result_is_named_with_its_last_line(monkeypatch, tmp_path):
    def failing(cells, folder, launcher, limits, report_ended):
        report_ended(Ended(cells[0], {}, "rmt: the disk is full"), 0)

    monkeypatch.setattr(demo, "reproduce", failing)
    with pytest.raises(RMTError, match="rmt could not be trained: the disk is full"):
        demo.train_all(tmp_path, 1, dict.fromkeys(demo.MODELS, Watcher()))


@pytest.mark.slow
def test_three_processes_train_the_models_and_a_second_call_finds_them(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(demo.__file__).parents[2]))
    code, out, _ = rmt(capsys, "demo --steps 2")
    assert code == 0
    assert all(f"{name:14}  step 2  loss" in out for name in demo.MODELS)
    again, repeated, _ = rmt(capsys, "demo --steps 2 --quiet")
    assert again == 0
    assert [line for line in repeated.splitlines() if "│" in line] == [
        line for line in out.splitlines() if "│" in line
    ]
    other, _, err = rmt(capsys, "demo --steps 3 --quiet")
    assert other == 2
    assert "holds a run with train.steps=2, not 3" in err
