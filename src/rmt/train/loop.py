"""A run from its first step to result.json: log, evaluate, save, resume, stop at the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch

from rmt.errors import ConfigError
from rmt.seal import sealed
from rmt.stopping import REQUEST, Interrupted, Stopped
from rmt.store import write_json
from rmt.train.check import check_run
from rmt.train.checkpoint import Checkpoints, load
from rmt.train.checkup import Checkup
from rmt.train.config import RunConfig, build_task
from rmt.train.device import decided
from rmt.train.divergence import Diverged, go_back, in_words, require_finite, require_finite_weights
from rmt.train.log import Clock, MetricsLog, process_seconds
from rmt.train.measure import Measurement, StandIn, measure
from rmt.train.parallel import gathered
from rmt.train.processes import is_first
from rmt.train.result import run_record
from rmt.train.snapshots import change_of_processes, require_same_step, restore, snapshot
from rmt.train.trainer import PlannedUpdate, Trainer, Update, UpdateNumbers
from rmt.train.update import UpdateResult

MAX_BATCHES_WITHOUT_LOSS = 1000  # in a row; a task that draws its losses at random may miss them often


class Observer(Protocol):
    """Whoever watches a run: a progress bar, a test."""

    def note(self, text: str) -> None: ...

    def warning(self, text: str) -> None: ...

    def logged(self, record: dict[str, Any]) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def testing(self, done: int, total: int) -> None: ...


class Loop:
    """A `Trainer` in a run folder; what is due between updates is done at the end of batches."""

    def __init__(self, config: RunConfig, folder: Path, observer: Observer, clock: Clock | None = None):
        self.config, self.folder, self.observer = decided(config), folder, observer
        self.clock = clock or Clock()
        self.task = build_task(config.task)
        check_run(config, type(self.task))
        self.task.require_splits(config.train.batch, config.train.evaluate_batch)
        self.trainer = Trainer(self.config, self.task)
        self.checkpoints = Checkpoints(folder, config.train.keep)
        self.stand_in = StandIn()
        self.log = MetricsLog(folder)
        self.checkup = Checkup(self.trainer, self.log, observer)
        self.pending: list[Update] = []  # since the last line of the log
        self.logged_at, self.logged_tokens = self.clock.now(), 0  # of the last line of the log
        self.batches_without_loss = 0  # in a row
        self.first_update_seconds: float | None = None  # after the process started; none = no update was made
        self.stopping = 0  # the signal that asks to stop, since the last update
        self.resume_up_to = math.inf  # the last step that may be gone on from
        self.saves_evaluated = False  # save at every evaluation, not only at the best

    def run(self) -> dict[str, Any]:
        """Train to the last step or to the target, test the best checkpoint, write result.json."""
        updates = self.planned_updates()
        first = next(updates, None)
        with REQUEST.deferred():
            if first is not None:  # whatever could be refused has been
                self.observer.note(self.trainer.updater.path)
                for planned in chain([first], updates):
                    result = self.trainer.updater.update(planned.batch)
                    self.stopping = REQUEST.signal
                    self.learned(planned, result)
            return self.finish()

    def planned_updates(self) -> Iterator[PlannedUpdate]:
        """The updates to make, one by one, to the end of the run; in between, all else that is due.

        What an update leaves is `learned` before the next is asked for.
        """
        with self.clock.paused():
            self.resume()
            if not self.trainer.step and self.config.train.on_nan == "back":
                self.save(best=False)  # there is always something to go back to
        budget = self.config.train.steps
        self.logged_at, self.logged_tokens = self.clock.now(), self.trainer.tokens
        while self.trainer.step < budget and not self.trainer.reached:
            before = self.trainer.step
            yield from self.updates_of_batch(budget)
            try:
                self.between(before, final=self.trainer.step >= budget)
            except Diverged as error:
                self.go_back(error)

    def learned(self, planned: PlannedUpdate, result: UpdateResult) -> None:
        """Go on behind an update."""
        self.pending.append(self.trainer.learned(planned, result))
        if self.first_update_seconds is None:
            result.loss.tolist()  # the device is done with it
            self.first_update_seconds = round(process_seconds(), 3)

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        self.trainer.processes.barrier()  # the first process has prepared the folder
        saved = self.checkpoints.newest(self.observer.warning, self.resume_up_to)
        require_same_step(self.trainer.processes, saved)  # before the first process tidies up
        if saved is not None:
            restore(self.trainer, saved)
            self.observer.note(
                f"resuming at step {self.trainer.step}{change_of_processes(self.trainer, saved)}"
            )
        elif any(step <= self.resume_up_to for step in self.checkpoints.steps()):
            self.observer.warning("no checkpoint is whole: starting anew")
        if is_first():
            self.checkpoints.rewind(self.trainer.step, self.trainer.best_step)
            self.log.rewind(self.trainer.step, self.trainer.times_back)
        self.checkup.resume()

    def updates_of_batch(self, budget: int) -> Iterator[PlannedUpdate]:
        """The updates of the next batch, within the budget."""
        before = self.trainer.step
        for planned in self.trainer.planned_updates():
            yield planned
            if self.trainer.step >= budget:
                break
        self.batches_without_loss = self.batches_without_loss + 1 if self.trainer.step == before else 0
        if self.batches_without_loss == MAX_BATCHES_WITHOUT_LOSS:
            raise ConfigError(
                f"{MAX_BATCHES_WITHOUT_LOSS} batches of task {self.task.name!r} in a row have no target "
                "under the loss; set loss_mask where there is something to learn"
            )

    def between(self, before: int, final: bool) -> None:
        """What is due between two batches: log, promote, evaluate, save."""
        train, step = self.config.train, self.trainer.step

        def due(every: int) -> bool:
            return final or before // every != step // every

        evaluates = due(train.evaluate_every)
        logs = evaluates or due(train.log_every) or due(train.save_every)
        stopping = self.agreed_stop(logs)
        if logs or stopping:
            self.trainer.unlogged += self.checked()
        if logs:
            accuracy = self.write_log()
        elif stopping:
            self.trainer.seconds += self.clock.now() - self.logged_at
        if self.trainer.curriculum.is_over(step / train.steps) or (
            logs and self.trainer.curriculum.trained(accuracy)
        ):
            self.promoted()
        best = evaluates and self.evaluate()
        if best or stopping or due(train.save_every) or (evaluates and self.saves_evaluated):
            self.save(best)
        if stopping:
            self.trainer.processes.barrier()  # torchrun ends all when one ends, also while the first saves
            raise Stopped(stopping, f"step {step} is saved in {self.folder}; the same command goes on")

    def agreed_stop(self, logs: bool) -> int:
        """The signal that stops the run here: several processes agree on it where they log."""
        if self.trainer.processes.world_size == 1:
            return self.stopping
        return self.trainer.processes.largest(self.stopping) if logs else 0

    def save(self, best: bool) -> None:
        """Write a checkpoint of all there is now."""
        saved = snapshot(self.trainer)
        require_finite_weights(saved, self.trainer.step, self.checkpoints)
        if is_first():
            self.checkpoints.save(self.trainer.step, saved, best)

    def go_back(self, error: Diverged) -> None:
        """Go on from the newest checkpoint with a smaller rate, if that is what to do."""
        trainer = self.trainer
        saved = self.checkpoints.newest(self.observer.warning)
        if self.config.train.on_nan == "stop" or saved is None:
            raise error
        trainer.processes.barrier()  # before the first process tidies up
        record = go_back(trainer, saved, error)
        self.pending, self.logged_tokens = [], trainer.tokens
        if is_first():
            self.checkpoints.rewind(trainer.step, trainer.best_step)
            self.log.rewind(trainer.step, trainer.times_back - 1)
            self.log.write(record)
        self.checkup.resume()
        self.observer.warning(in_words(record))

    def checked(self) -> list[UpdateNumbers]:
        """The pending updates, read from the device; stops at the first that is not a number."""
        if not self.pending:
            return []
        updates = self.trainer.to_host(self.pending)
        for step, update in enumerate(updates, self.trainer.step - len(updates) + 1):
            require_finite("loss", update.loss, step, self.checkpoints)
            require_finite("gradient_norm", update.norm, step, self.checkpoints)
        self.pending = []
        return updates

    def write_log(self) -> float:
        """Write the mean of the updates since the last line; returns their accuracy."""
        updates, self.trainer.unlogged = self.trainer.unlogged, []
        accuracy = sum(update.correct for update in updates) / sum(update.counted for update in updates)
        elapsed = self.clock.now() - self.logged_at
        self.trainer.seconds += elapsed
        record = {
            "step": self.trainer.step,
            "loss": sum(update.loss for update in updates) / len(updates),
            "train_accuracy": accuracy,
            "gradient_norm": updates[-1].norm,
            "rate": self.trainer.rate.factor(self.trainer.step - 1),
            "stage": self.trainer.curriculum.number,
            **({"overflowed": self.trainer.overflowed} if self.trainer.slots else {}),
            "tokens_per_second": (self.trainer.tokens - self.logged_tokens) / elapsed,
            "seconds": self.trainer.seconds,
        }
        self.report(record, self.observer.logged)
        self.logged_tokens, self.logged_at = self.trainer.tokens, self.clock.now()
        return accuracy

    def report(self, record: dict[str, Any], notify: Callable[[dict[str, Any]], None]) -> None:
        """Write a line of the log and let the observer know."""
        if is_first():
            self.log.write(record)
        notify(record)

    def promoted(self) -> None:
        """Go on with another stage of the curriculum."""
        trainer = self.trainer
        self.observer.note(f"promoted to stage {trainer.curriculum.number} at step {trainer.step}")
        if trainer.curriculum.finished:
            trainer.rate.fall_from(trainer.step)

    def evaluate(self) -> bool:
        """Measure on the validation set; true if the model was never better."""
        trainer, target = self.trainer, self.config.train.target
        with self.clock.paused(), gathered(trainer.model):
            samples = self.task.samples("valid", self.config.train.evaluate_samples)
            asked = Measurement("valid", samples, thorough=False, stand_in=self.stand_in)
            metrics = measure(trainer.model, self.task, self.config, asked)
        metrics = trainer.processes.broadcast(metrics)  # all go on from the same numbers
        trainer.rate.evaluated(metrics["loss"])
        value = metrics[self.task.metric]
        sign = self.task.sign
        best = sign * value > trainer.best
        if best:
            trainer.best, trainer.best_step = sign * value, trainer.step
        trainer.reached = trainer.curriculum.finished and target is not None and sign * value >= sign * target
        record = {"step": trainer.step, "split": "valid", **metrics}
        self.report(record, self.observer.evaluated)
        with self.clock.paused():
            self.checkup.evaluated(metrics["loss"])
        return best

    def finish(self) -> dict[str, Any]:
        """Test the best checkpoint on the test split and write result.json."""
        with self.clock.paused():
            outcome = self.trainer.processes.broadcast(self.outcome() if is_first() else {})
        if isinstance(outcome, int):
            saved = f"training is over and saved in {self.folder}; the same command goes on with the test"
            raise Stopped(outcome, saved)
        return dict(outcome)

    def outcome(self) -> dict[str, Any] | int:
        """The result, or the signal that asked to stop before there was one."""
        try:
            with torch.random.fork_rng(devices=()), REQUEST.at_once():  # seeds that go on do not notice
                return self.result()
        except Interrupted:
            return REQUEST.signal

    def result(self) -> dict[str, Any]:
        """What result.json says."""
        model = load(self.folder).to(self.trainer.processes.device)
        samples = self.config.train.test_samples
        asked = Measurement("test", samples, progress=self.observer.testing, stand_in=self.stand_in)
        metrics = measure(model, self.task, self.config, asked)
        result = {
            **run_record(self.trainer, model, metrics),
            "first_update_seconds": self.first_update_seconds,
            "notes": self.checkup.notes,
        }
        result = sealed(result)
        write_json(self.folder / "result.json", result)
        return result
