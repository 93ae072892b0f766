"""Trainers that differ in their seeds: together, and each alone."""

# K seeds

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rmt.train import ensemble
from rmt.train.config import RunConfig
from rmt.train.ensemble import Ensemble
from rmt.train.loop import Loop
from rmt.train.snapshots import snapshot
from rmt.train.stack import StackedUpdater
from rmt.train.trainer import Trainer, Update
from tests.laws.models import assert_same
from tests.train.runs import Watcher, tiny, trainer_of

SEEDS = 3
SLIDING = {"schedule": "sliding", "depth": 1}


def double(**groups: Any) -> RunConfig:
    return tiny(precision="64-true", **groups)


def watchers() -> list[Watcher]:
    return [Watcher() for _ in range(SEEDS)]


def trainers_of(config: RunConfig) -> list[Trainer]:
    """A trainer for each seed."""
    return [trainer_of(replace(config, seed=seed)) for seed in range(SEEDS)]


@contextmanager
def stacked(trainers: list[Trainer]) -> Iterator[StackedUpdater]:
    updater = StackedUpdater([trainer.updater for trainer in trainers])
    yield updater
    updater.release()


def updates_of(trainers: list[Trainer], updater: StackedUpdater) -> list[Update]:
    """The updates from the next item of the feed, those of all seeds at one step in a row."""
    updates = ensemble.updates_together(trainers, updater)
    return [update for step in zip(*updates, strict=True) for update in step]


def updates_together(trainers: list[Trainer]) -> list[Update]:
    with stacked(trainers) as updater:
        return updates_of(trainers, updater)


def assert_as_alone(config: RunConfig, batches: int) -> Tensor:
    """Losses, norms, weights and optimizer states of K seeds at once; returns the norms, (updates, K)."""
    alone, together = trainers_of(config), trainers_of(config)
    norms = []
    with stacked(together) as updater:
        for _ in range(batches):
            made = updates_of(together, updater)
            expected = [list(trainer.updates()) for trainer in alone]
            for place, one in enumerate(made):
                twin = expected[place % SEEDS][place // SEEDS]
                assert (int(one.correct), one.counted) == (int(twin.correct), twin.counted)
                assert_same((one.loss, one.norm), (twin.loss, twin.norm), tolerance=1e-8)
            assert len(made) == sum(map(len, expected))
            norms += [one.norm for one in made]
        for mine, theirs in zip(together, alone, strict=True):
            assert_same_trainer(mine, theirs)
    return torch.stack(norms).view(-1, SEEDS)


def assert_same_trainer(mine: Trainer, theirs: Trainer, tolerance: float = 1e-8) -> None:
    """What a checkpoint would have of them."""
    saved, expected = snapshot(mine), snapshot(theirs)
    for part in ("model", "optimizer"):
        found, wanted = getattr(saved, part), getattr(expected, part)
        assert found.keys() == wanted.keys()
        assert wanted
        assert_same([found[name] for name in wanted], list(wanted.values()), tolerance=tolerance)
    assert mine.step == theirs.step


def assert_same_numbers(mine: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> None:
    assert len(mine) == len(theirs)
    for one, two in zip(mine, theirs, strict=True):
        assert one.keys() == two.keys()
        for name, value in two.items():
            assert one[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-8)), name


def keep_loops(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Fills with the loops of every ensemble."""
    kept: list[Any] = []
    real = Ensemble.__init__
    monkeypatch.setattr(Ensemble, "__init__", lambda self, loops: kept.extend(loops) or real(self, loops))
    return kept


def reach(monkeypatch: pytest.MonkeyPatch, steps: dict[int, int]) -> None:
    """Let seeds reach their target at a step."""
    real = Loop.evaluate

    def evaluate(self: Any) -> bool:
        best = real(self)
        self.trainer.reached = self.trainer.step == steps.get(self.config.seed)
        return best

    monkeypatch.setattr(Loop, "evaluate", evaluate)


def files(run: Path) -> set[str]:
    """Names of what a run wrote."""
    return {str(path.relative_to(run)) for path in run.rglob("*")}
