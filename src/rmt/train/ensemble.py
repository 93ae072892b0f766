"""Seeds of one configuration trained at once: each as if it were alone, their updates made together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rmt.errors import ConfigError, RMTError
from rmt.train.config import RunConfig
from rmt.train.loop import Loop
from rmt.train.processes import world_size
from rmt.train.single import SingleUpdater
from rmt.train.stack import StackedUpdater, optimizer_steps
from rmt.train.trainer import Portion, Trainer, Update
from rmt.train.update import WindowBatch


class Ensemble:
    """Runs that differ in their seeds only; one that reaches its target leaves.

    Those at the least step go on together, so runs that were stopped at different steps meet again.
    """

    def __init__(self, loops: Sequence[Loop]):
        self.loops = loops
        self.stacked: StackedUpdater | None = None
        self.portions: dict[Loop, Iterator[Portion]] = {loop: loop.portions() for loop in loops}
        self.waiting: dict[Loop, Portion] = {}  # what runs want to learn from next
        self.results: dict[Loop, dict[str, Any]] = {}
        self.errors: list[RMTError] = []

    def run(self) -> list[dict[str, Any]]:
        """The results in order; a run that fails leaves, and its error is raised when the others are over."""
        for loop in self.loops:
            self.go_on(loop)
        for loop in list(self.waiting)[:1]:  # the way of all, unless they are at their ends
            loop.observer.note(loop.trainer.updater.path)
        while self.waiting:
            chosen = self.next_together()
            self.stacked = self.stacked or StackedUpdater(updaters_of(chosen))
            portions = [self.waiting.pop(loop) for loop in chosen]
            results = self.stacked.update_each([portion.batch for portion in portions])
            for loop, portion, result in zip(chosen, portions, results, strict=True):
                loop.learned(portion, result)
                self.go_on(loop)
        self.release()
        if self.errors:
            raise self.errors[0]
        return [self.results[loop] for loop in self.loops]

    def go_on(self, loop: Loop) -> None:
        """Let a run go on to its next update, or to its end."""
        try:
            portion = next(self.portions[loop], None)
            if portion is None:
                self.results[loop] = loop.finish()
            else:
                self.waiting[loop] = portion
        except RMTError as error:
            self.errors.append(error)

    def next_together(self) -> list[Loop]:
        """The runs whose updates are made next: of those at the least step, all that ask for the same."""
        least = min(loop.trainer.step for loop in self.waiting)
        behind = [loop for loop in self.loops if loop in self.waiting and loop.trainer.step == least]
        shape = shape_of(self.waiting[behind[0]].batch)
        chosen = [loop for loop in behind if shape_of(self.waiting[loop].batch) == shape]
        if self.stacked is not None and updaters_of(chosen) == self.stacked.members:
            return chosen
        self.release()
        steps = optimizer_steps(chosen[0].trainer.updater)
        return [loop for loop in chosen if optimizer_steps(loop.trainer.updater) == steps]

    def release(self) -> None:
        """Let every run have its own parameters and optimizer states again."""
        if self.stacked is not None:
            self.stacked.release()
        self.stacked = None


def updaters_of(loops: Sequence[Loop]) -> list[SingleUpdater]:
    return [loop.trainer.updater for loop in loops]


def shape_of(batch: WindowBatch) -> tuple[Any, ...]:
    """What updates have to share to be made together; capacities can be agreed on."""
    return batch.kind._replace(capacities=()), tuple(tensor.shape for tensor in batch.tensors)


def updates_together(trainers: Sequence[Trainer], stacked: StackedUpdater) -> list[list[Update]]:
    """Train every trainer on its next piece of data, where these ask for the same; the updates of each."""
    updates: list[list[Update]] = [[] for _ in trainers]
    for portions in zip(*(trainer.portions() for trainer in trainers), strict=True):
        results = stacked.update_each([portion.batch for portion in portions])
        for trainer, portion, result, done in zip(trainers, portions, results, updates, strict=True):
            done.append(trainer.learned(portion, result))
    return updates


def require_stackable(config: RunConfig) -> None:
    """Refuse what makes the updates of seeds differ in kind, or cannot be stacked."""
    if world_size() > 1:
        raise ConfigError(
            f"seeds are trained together by one process, not by {world_size()}; leave torchrun or srun out, "
            "or train each with --seed"
        )
    refused = {
        f"strategy={config.strategy}": config.strategy == "fsdp",
        "rate.schedule=plateau": config.rate.schedule == "plateau",
        f"curriculum.over={config.curriculum.over}": config.curriculum.over != "none",
        "bptt.checkpoint=True": config.bptt.checkpoint,
    }
    for setting in (name for name, is_set in refused.items() if is_set):
        raise ConfigError(
            f"{setting} does not go with many seeds at once; train them one by one with --seed, or use "
            "another setting"
        )
