"""A suite is settings: every run of it can be resolved, and says no more than what is special about it."""

from pathlib import Path

import pytest

from rmt.errors import ConfigError
from rmt.experiments.recipe import resolve
from rmt.experiments.suites import SUITES, Run

TEXT = "It was the best of times, it was the worst of times. " * 40


def runs_of(name: str, data: str = "enwik8.txt", steps: int = 7) -> dict[str, Run]:
    return {run.name: run for run in SUITES[name](data if name == "text" else "", steps)}


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("enwik8.txt").write_text(TEXT)


@pytest.mark.usefixtures("book")
@pytest.mark.parametrize("name", SUITES)
def test_every_run_resolves_to_a_configuration_of_the_asked_steps(name):
    for run in runs_of(name).values():
        assert resolve(run.settings).train.steps == 7


@pytest.mark.parametrize(
    ("name", "count"), [("copies", 54), ("retrieval", 18), ("quadratic", 6), ("text", 13)]
)
def test_the_names_of_the_runs_are_folders_of_their_own(name, count):
    runs = list(SUITES[name]("enwik8.txt", 7))
    assert len({run.name for run in runs}) == len(runs) == count
    assert all(len(run.name) < 60 and "." not in run.name for run in runs)


@pytest.mark.parametrize(
    ("suite", "name", "settings"),
    [  # as the command lines of commit 17fc2a8 said it
        (
            "copies",
            "copy-9-rmt-4",
            {
                "task": {"name": "copy", "length": 24, "segments": 9},
                "size": "paper",
                "train": {"steps": 1000, "target": 0.995},
                "seed": 4,
            },
        ),
        (
            "retrieval",
            "retrieval-3-rmt-1",
            {
                "task": {"name": "retrieval", "segments": 3},
                "size": "paper",
                "model": {"init": "scaled", "memory": {"size": 3}},
                "optimizer": {"matrix_lr": 0.005},
                "curriculum": {"over": "length", "start": 2, "growth": 1.2},
                "train": {"batch": 512, "steps": 8000, "evaluate_every": 250, "target": 0.995},
                "precision": "bf16-mixed",
                "seed": 1,
            },
        ),
        (
            "quadratic",
            "quadratic-transformer_xl",
            {
                "task": {"name": "quadratic", "segments": 6},
                "preset": "transformer_xl",
                "size": "paper",
                "model": {"positions": "rotary"},
                "precision": "bf16-mixed",
                "train": {"steps": 5000, "evaluate_every": 2500},
            },
        ),
        (
            "text",
            "wikitext-2-paper-rmt-depth-2-stored",
            {
                "task": {"name": "text", "data": "wikitext-2", "segment_length": 32},
                "preset": "rmt",
                "recipe": "paper",
                "size": "wt103-base",
                "scale": "gpu",
                "bptt": {"schedule": "sliding", "depth": 2, "replay_from": "stored"},
                "precision": "bf16-mixed",
                "train": {
                    "batch": 128,
                    "steps": 1000,
                    "evaluate_every": 500,
                    "save_every": 1000,
                    "evaluate_batch": 64,
                },
            },
        ),
    ],
)
def test_a_run_has_the_settings_that_its_results_were_made_with(suite, name, settings):
    assert runs_of(suite, data="wikitext-2", steps=0)[name].settings == settings


def test_other_settings_go_over_those_of_a_run_and_leave_it_as_it_is():
    run = Run("first", {"train": {"steps": 3, "batch": 4}})
    assert run.over({"train": {"steps": 5}, "device": "cpu"}).settings == {
        "train": {"steps": 5, "batch": 4},
        "device": "cpu",
    }
    assert run.settings == {"train": {"steps": 3, "batch": 4}}


def test_a_suite_of_texts_without_a_text_is_an_error():
    with pytest.raises(ConfigError, match="data is missing"):
        list(SUITES["text"]("", 0))
