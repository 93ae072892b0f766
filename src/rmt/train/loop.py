"""A run from its first step to result.json: log, evaluate, save, resume, stop at the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from rmt.config import to_dict
from rmt.errors import ConfigError, RMTError
from rmt.train.check import check_run
from rmt.train.checkpoint import Checkpoints, load
from rmt.train.config import RunConfig, build_task
from rmt.train.device import decided
from rmt.train.log import Clock, MetricsLog, environment, process_seconds, write_json
from rmt.train.measure import Measurement, measure
from rmt.train.parallel import gathered
from rmt.train.processes import is_first
from rmt.train.snapshots import change_of_processes, require_same_step, restore, snapshot
from rmt.train.trainer import Portion, Trainer, Update, UpdateNumbers
from rmt.train.update import UpdateResult

MAX_BATCHES_WITHOUT_LOSS = 1000  # in a row; a task that draws its losses at random may miss them often


class Diverged(RMTError):
    """The loss stopped being a number."""

    exit_code = 1


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
        self.log = MetricsLog(folder)
        self.pending: list[Update] = []  # since the last line of the log
        self.logged_at, self.logged_tokens = self.clock.now(), 0  # of the last line of the log
        self.batches_without_loss = 0  # in a row
        self.first_update_seconds: float | None = None  # after the process started; none = no update was made

    def run(self) -> dict[str, Any]:
        """Train to the last step or to the target, test the best checkpoint, write result.json."""
        for number, portion in enumerate(self.portions()):
            if number == 0:  # whatever could be refused has been
                self.observer.note(self.trainer.updater.path)
            self.learned(portion, self.trainer.updater.update(portion.batch))
        return self.finish()

    def portions(self) -> Iterator[Portion]:
        """What to learn from, update by update, to the end of the run; in between, all else that is due.

        What an update leaves is `learned` before the next portion is asked for.
        """
        with self.clock.paused():
            self.resume()
        budget = self.config.train.steps
        self.logged_at, self.logged_tokens = self.clock.now(), self.trainer.tokens
        while self.trainer.step < budget and not self.trainer.reached:
            before = self.trainer.step
            yield from self.batch(budget)
            self.between(before, final=self.trainer.step >= budget)

    def learned(self, portion: Portion, result: UpdateResult) -> None:
        """Go on behind an update."""
        self.pending.append(self.trainer.learned(portion, result))
        if self.first_update_seconds is None:
            result.loss.tolist()  # the device is done with it
            self.first_update_seconds = round(process_seconds(), 3)

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        self.trainer.processes.barrier()  # the first process has prepared the folder
        saved = self.checkpoints.newest(self.observer.warning)
        require_same_step(self.trainer.processes, saved)  # before the first process tidies up
        if saved is not None:
            restore(self.trainer, saved)
            self.observer.note(
                f"resuming at step {self.trainer.step}{change_of_processes(self.trainer, saved)}"
            )
        elif self.checkpoints.steps():
            self.observer.warning("no checkpoint is whole: starting anew")
        if is_first():
            self.checkpoints.rewind(self.trainer.step, self.trainer.best_step)
            self.log.rewind(self.trainer.step)

    def batch(self, budget: int) -> Iterator[Portion]:
        """The next batch, within the budget of updates."""
        before = self.trainer.step
        for portion in self.trainer.portions():
            yield portion
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

        if due(train.log_every) or due(train.evaluate_every) or due(train.save_every):
            self.promote(self.write_log(self.checked()))
        best = due(train.evaluate_every) and self.evaluate()
        if best or due(train.save_every):
            saved = snapshot(self.trainer)
            if is_first():
                self.checkpoints.save(step, saved, best)

    def checked(self) -> list[UpdateNumbers]:
        """The pending updates, read from the device; stops at the first that is not a number."""
        updates = self.trainer.to_host(self.pending)
        for step, update in enumerate(updates, self.trainer.step - len(updates) + 1):
            self.require_finite("loss", update.loss, step)
            self.require_finite("gradient_norm", update.norm, step)
        self.pending = []
        return updates

    def write_log(self, updates: Sequence[UpdateNumbers]) -> float:
        """Write the mean of the updates since the last line; returns their accuracy."""
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

    def promote(self, accuracy: float) -> None:
        """Go on to the next stage of the curriculum if the training accuracy has earned it."""
        if self.trainer.curriculum.trained(accuracy):
            number = self.trainer.curriculum.number
            self.observer.note(f"promoted to stage {number} at step {self.trainer.step}")

    def require_finite(self, name: str, value: float, step: int) -> None:
        if not math.isfinite(value):
            raise Diverged(
                f"{name}={value} at step {step}: training diverged; the last good checkpoint is kept in "
                f"{self.checkpoints.folder}; lower optimizer.lr and start anew with --restart"
            )

    def evaluate(self) -> bool:
        """Measure on the validation set; true if the model was never better."""
        trainer, target = self.trainer, self.config.train.target
        with self.clock.paused(), gathered(trainer.model):
            samples = self.task.samples("valid", self.config.train.evaluate_samples)
            asked = Measurement("valid", samples, thorough=False)
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
        return best

    def finish(self) -> dict[str, Any]:
        """Test the best checkpoint on the whole test split and write result.json."""
        with self.clock.paused():
            result = self.result() if is_first() else {}
            return dict(self.trainer.processes.broadcast(result))

    def result(self) -> dict[str, Any]:
        """What result.json says."""
        model = load(self.folder).to(self.trainer.processes.device)
        asked = Measurement("test", progress=self.observer.testing)
        metrics = measure(model, self.task, self.config, asked)
        trainer, config = self.trainer, self.config
        result = {
            "task": self.task.name,
            "task_version": self.task.version,
            "model": config.preset,
            "recipe": config.recipe,
            "metric": self.task.metric,
            "value": metrics[self.task.metric],
            "split": "test",
            "metrics": metrics,
            "seed": config.seed,
            "steps": trainer.step,
            "seconds": round(trainer.seconds, 3),
            "first_update_seconds": self.first_update_seconds,
            "samples": trainer.samples,
            "tokens": trainer.tokens,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "state_bytes": model.initial_state(1).nbytes,
            "processes": trainer.processes.world_size,
            "config": to_dict(config),
            "environment": environment(trainer.processes.device),
        }
        write_json(self.folder / "result.json", result)
        return result
