"""Seeds of one configuration trained at once: each as if it were alone, their updates made together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rmt.errors import ConfigError, RMTError
from rmt.stopping import REQUEST, Stopped
from rmt.train.config import RunConfig
from rmt.train.loop import Loop
from rmt.train.meeting import meet
from rmt.train.processes import world_size
from rmt.train.single import SingleUpdater
from rmt.train.stack import StackedUpdater, optimizer_steps
from rmt.train.trainer import PlannedUpdate, Trainer, Update
from rmt.train.update import WindowBatch

MIN_KEPT = 2  # checkpoints of a seed: while others still save a step, all have the one before


class Ensemble:
    """Runs that differ in their seeds only; one that reaches its target leaves.

    They save at the same steps and go on from a step that all have saved, so that each update is made beside
    the same seeds as if nothing had stopped them. Those at the least step go on together, so runs that have
    no such step meet again.
    """

    def __init__(self, loops: Sequence[Loop]):
        self.loops = loops
        self.stacked: StackedUpdater | None = None
        self.upcoming: dict[Loop, Iterator[PlannedUpdate]] = {loop: loop.planned_updates() for loop in loops}
        self.waiting: dict[Loop, PlannedUpdate] = {}  # what runs want to learn from next
        self.results: dict[Loop, dict[str, Any]] = {}
        self.errors: list[RMTError] = []
        for loop in loops:
            loop.saves_evaluated = True  # which is the best is another for each
            loop.stand_in = loops[0].stand_in
            loop.checkpoints.keep = max(MIN_KEPT, loop.checkpoints.keep)

    def run(self) -> list[dict[str, Any]]:
        """The results in order; a run that fails leaves, and its error is raised when the others are over."""
        meet(self.loops)
        with REQUEST.deferred():
            self.go_on(self.loops)
            for loop in list(self.waiting)[:1]:  # the way of all, unless they are at their ends
                loop.observer.note(loop.trainer.updater.path)
            while self.waiting:
                self.update_together()
            self.release()
            self.raise_errors()
        return [self.results[loop] for loop in self.loops]

    def update_together(self) -> None:
        """Make an update of the runs that are next; all of them stop where any is asked to."""
        chosen = self.next_together()
        self.stacked = self.stacked or StackedUpdater(updaters_of(chosen))
        updates = [self.waiting.pop(loop) for loop in chosen]
        results = self.stacked.update_each([planned.batch for planned in updates])
        signal = REQUEST.signal
        for loop in self.loops:
            loop.stopping = signal
        for loop, planned, result in zip(chosen, updates, results, strict=True):
            loop.learned(planned, result)
        self.go_on(chosen)

    def go_on(self, loops: Sequence[Loop]) -> None:
        """Let runs go on to their next updates; those at their ends are tested when all others have saved."""
        over = [loop for loop in loops if self.is_over(loop)]
        for loop in over:
            try:
                self.results[loop] = loop.finish()
            except RMTError as error:
                self.errors.append(error)

    def is_over(self, loop: Loop) -> bool:
        """Let a run go on to its next update, if there is one."""
        try:
            planned = next(self.upcoming[loop], None)
        except RMTError as error:
            self.errors.append(error)
            return False
        if planned is not None:
            self.waiting[loop] = planned
        return planned is None

    def raise_errors(self) -> None:
        """Raise what ended a run before its end: a stop, which is that of all, or the first error."""
        stops = [error for error in self.errors if isinstance(error, Stopped)]
        if stops:
            folder = self.loops[0].folder.parent
            raise Stopped(stops[0].number, f"all seeds are saved in {folder}; the same command goes on")
        if self.errors:
            raise self.errors[0]

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
    """Train every trainer on its next item, where these ask for the same; the updates of each."""
    updates: list[list[Update]] = [[] for _ in trainers]
    for step in zip(*(trainer.planned_updates() for trainer in trainers), strict=True):
        results = stacked.update_each([planned.batch for planned in step])
        for trainer, planned, result, done in zip(trainers, step, results, updates, strict=True):
            done.append(trainer.learned(planned, result))
    return updates


def require_one_process() -> None:
    """Refuse to train several seeds where several processes train."""
    if world_size() > 1:
        raise ConfigError(
            f"seeds are trained together by one process, not by {world_size()}; leave torchrun or srun out, "
            "or train each with --seed"
        )


def require_stackable(config: RunConfig) -> None:
    """Refuse what makes the updates of seeds differ in kind, or cannot be stacked."""
    require_one_process()
    refused = {
        f"strategy={config.strategy}": config.strategy == "fsdp",
        "rate.schedule=plateau": config.rate.schedule == "plateau",
        f"curriculum.over={config.curriculum.over}": config.curriculum.over != "none",
        "bptt.checkpoint=True": config.bptt.checkpoint,
        "train.on_nan=back": config.train.on_nan == "back",
    }
    for setting in (name for name, is_set in refused.items() if is_set):
        raise ConfigError(
            f"{setting} does not go with many seeds at once; train them one by one with --seed, or use "
            "another setting"
        )
