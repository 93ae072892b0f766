"""Whole runs of seeds at once: their folders, early stops, resumes and mistakes."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from rmt.errors import ConfigError
from rmt.experiments.run import train, train_seeds
from rmt.tasks.task import Batch
from rmt.train import objective
from rmt.train.loop import Diverged, Loop
from rmt.train.stack import optimizer_steps
from tests.covering import quick
from tests.train.runs import Echo, Unplugged, Watcher, metrics, tiny, trainer_of
from tests.train.seeds import (
    SEEDS,
    SLIDING,
    assert_same_numbers,
    assert_same_trainer,
    double,
    files,
    keep_loops,
    reach,
    trainers_of,
    watchers,
)


@dataclass(frozen=True, kw_only=True)
class Wandering(Echo):
    """Some batches, others for every seed, have no loss in their second segment."""

    def fresh(self, count: int, number: int, seed: int) -> Batch:
        batch = super().fresh(count, number, seed)
        second = torch.arange(batch.loss_mask.shape[1]) // 2 == 1
        return batch._replace(loss_mask=batch.loss_mask & ~(second & ((number + seed) % 3 > 0)))


CURRICULUM = {"curriculum": {"over": "length", "start": 2, "promote_at": 0.1}}


@pytest.mark.parametrize(
    "settings",
    quick({"at-once": {}, "each-at-its-pace": CURRICULUM}, "each-at-its-pace"),
)
def test_whole_runs_leave_the_folders_of_single_runs(settings, tmp_path):
    config = double(**settings)
    results = train_seeds(config, tmp_path / "together", watchers())
    for seed, result in enumerate(results):
        expected, _ = train(replace(config, seed=seed), tmp_path / f"alone-{seed}", Watcher())
        mine, theirs = tmp_path / "together" / f"seed-{seed}", tmp_path / f"alone-{seed}"
        assert (mine / "config.yaml").read_text() == (theirs / "config.yaml").read_text()
        assert files(mine) == files(theirs)
        assert_same_numbers(metrics(mine), metrics(theirs))
        assert_same_numbers([result["metrics"]], [expected["metrics"]])
        assert (result["seed"], result["steps"], result["samples"]) == (seed, 12, expected["samples"])


def test_a_seed_that_reaches_its_target_leaves_and_the_others_go_on_as_if_alone(tmp_path, monkeypatch):
    config, kept = double(train={"steps": 16, "target": 0.9}), keep_loops(monkeypatch)
    reach(monkeypatch, {0: 12, 1: 4})
    train_seeds(config, tmp_path / "together", watchers())
    assert [loop.trainer.step for loop in kept] == [12, 4, 16]
    for loop, alone in zip(kept, trainers_of(config), strict=True):
        while alone.step < loop.trainer.step:
            list(alone.updates())
        assert_same_trainer(loop.trainer, alone)


@pytest.mark.parametrize(
    "bptt", [pytest.param({}, marks=pytest.mark.slow), SLIDING], ids=["sequence", "sliding"]
)
def test_a_stopped_ensemble_ends_with_the_weights_of_an_uninterrupted_one(tmp_path, monkeypatch, bptt):
    config, kept = double(bptt=bptt, train={"steps": 20}), keep_loops(monkeypatch)
    train_seeds(config, tmp_path / "whole", watchers())
    for stop in (5, 9):
        with pytest.raises(Unplugged):  # after the first seed has saved, before the second has
            train_seeds(config, tmp_path / "stopped", [Watcher(), Watcher(stop), Watcher()])
    again = watchers()
    train_seeds(config, tmp_path / "stopped", again)
    assert any("going back from step" in text for watcher in again for text in watcher.messages)
    assert len({text for watcher in again for text in watcher.messages if "resuming" in text}) == 1
    for mine, theirs in zip(kept[-SEEDS:], kept[:SEEDS], strict=True):
        assert_same_trainer(mine.trainer, theirs.trainer, tolerance=0.0)
        assert metrics(mine.folder) == metrics(theirs.folder)


def test_a_member_is_resumed_alone_and_a_single_run_becomes_a_member(tmp_path, monkeypatch):
    config, kept = double(), keep_loops(monkeypatch)
    with pytest.raises(Unplugged):
        train_seeds(config, tmp_path / "seeds", [Watcher(), Watcher(), Watcher(stop=6)])
    watcher = Watcher()
    train(replace(config, seed=1), tmp_path / "seeds" / "seed-1", watcher)  # alone to its end
    assert watcher.messages == ["resuming at step 6", "64-true on the CPU"]
    with pytest.raises(Unplugged):
        train(replace(config, seed=2), tmp_path / "seeds" / "seed-2", Watcher(stop=8))
    del kept[:]
    results = train_seeds(config, tmp_path / "seeds", watchers())
    assert [result["seed"] for result in results] == [0, 1, 2]
    assert [loop.config.seed for loop in kept] == [0, 2]
    for loop in kept:
        alone = trainer_of(loop.config)
        while alone.step < 12:
            list(alone.updates())
        assert_same_trainer(loop.trainer, alone)


@pytest.mark.parametrize(
    "bptt", [pytest.param({"depth": 1}, marks=pytest.mark.slow), SLIDING], ids=["sequence", "sliding"]
)
def test_seeds_whose_losses_are_elsewhere_are_still_what_they_are_alone(tmp_path, monkeypatch, bptt):
    """They differ in the kind of an update, in their steps per batch, and in what memory has learned from."""
    task = {"name": "tests.train.test_ensemble_runs:Wandering"}
    config, kept = double(task=task, bptt=bptt, train={"steps": 15}), keep_loops(monkeypatch)
    train_seeds(config, tmp_path, watchers())
    for loop in kept:
        alone = Loop(loop.config, tmp_path / "alone" / loop.folder.name, Watcher())
        alone.folder.mkdir(parents=True)
        (alone.folder / "config.yaml").write_text((loop.folder / "config.yaml").read_text())
        alone.run()
        assert_same_trainer(loop.trainer, alone.trainer)
    if bptt == SLIDING:
        assert len({str(optimizer_steps(loop.trainer.updater)) for loop in kept}) > 1


def test_a_seed_that_diverges_leaves_and_is_told_when_the_others_are_done(tmp_path, monkeypatch):
    real = objective.loss

    def spoiled(*inputs: Any) -> Any:
        found = real(*inputs)
        bad = torch.tensor([1.0, torch.nan, 1.0], dtype=torch.float64)
        return found * bad if found.dim() and len(found) == 3 else found

    monkeypatch.setattr(objective, "loss", spoiled)
    with pytest.raises(Diverged, match=r"loss=nan at step 1: .*seed-1"):
        train_seeds(double(), tmp_path, watchers())
    assert [(tmp_path / f"seed-{seed}" / "result.json").exists() for seed in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": {"schedule": "plateau"}}, r"rate\.schedule=plateau does not go with many seeds"),
        ({"train": {"on_nan": "back"}}, r"train\.on_nan=back does not go with many seeds"),
        ({"bptt": {"checkpoint": True}}, r"bptt\.checkpoint=True does not go with many seeds"),
        ({"strategy": "fsdp"}, r"strategy=fsdp does not go with many seeds"),
        ({"seed": 2**32 - 2}, r"seed=4294967296 must be 0 to"),
    ],
    ids=["plateau", "on_nan", "checkpoint", "fsdp", "seed"],
)
def test_what_cannot_be_stacked_is_refused_and_leaves_no_folder(tmp_path, settings, words):
    with pytest.raises(ConfigError, match=words):
        train_seeds(tiny(**settings), tmp_path / "run", watchers())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("settings", [{}, {"curriculum": {"over": "length"}}], ids=["at-once", "in-turn"])
def test_many_processes_are_refused(tmp_path, monkeypatch, settings):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"by one process, not by 2; leave torchrun"):
        train_seeds(tiny(**settings), tmp_path / "run", watchers())
    assert not (tmp_path / "run").exists()


def test_the_folder_of_a_single_run_is_refused(tmp_path):
    train(tiny(train={"steps": 1}), tmp_path, Watcher())
    with pytest.raises(ConfigError, match="holds a single run; name another --out"):
        train_seeds(tiny(train={"steps": 1}), tmp_path, watchers())


def test_new_seeds_are_trained_in_the_number_format_of_those_that_go_on(tmp_path):
    train(tiny(precision="bf16-mixed", seed=1), tmp_path / "seed-1", Watcher())
    heard = watchers()
    results = train_seeds(tiny(), tmp_path, heard)
    assert [result["config"]["precision"] for result in results] == ["bf16-mixed"] * SEEDS
    assert [watcher.messages for watcher in heard] == [["bf16-mixed on the CPU"], [], []]
    with pytest.raises(ConfigError, match=r"seed-0' holds a run with precision=bf16-mixed, not 32-true"):
        train_seeds(tiny(precision="32-true"), tmp_path, watchers())


def test_a_finished_seed_may_have_another_number_format_but_not_one_that_goes_on(tmp_path):
    train(tiny(precision="64-true", seed=1), tmp_path / "seed-1", Watcher())
    with pytest.raises(Unplugged):
        train(tiny(precision="bf16-mixed", seed=2), tmp_path / "seed-2", Watcher(stop=4))
    line = r"precision=64-true \(seed 0\) and precision=bf16-mixed \(seed 2\) do not go together; train"
    with pytest.raises(ConfigError, match=line):
        train_seeds(tiny(), tmp_path, watchers())
    assert not (tmp_path / "seed-0").exists()
    train(tiny(seed=2), tmp_path / "seed-2", Watcher())
    results = train_seeds(tiny(), tmp_path, watchers())
    assert [result["config"]["precision"] for result in results] == ["64-true", "64-true", "bf16-mixed"]
