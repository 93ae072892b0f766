"""A run from its first step to result.json: log, evaluate, save, resume, stop at the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Protocol

from rmt.config import to_dict
from rmt.errors import ConfigError, RMTError
from rmt.train.check import check_run
from rmt.train.checkpoint import Checkpoints, load
from rmt.train.config import RunConfig, build_task
from rmt.train.learner import Answer, Request, answered
from rmt.train.log import Clock, MetricsLog, environment, write_json
from rmt.train.measure import measure
from rmt.train.parallel import gathered, is_first
from rmt.train.snapshots import restore, snapshot
from rmt.train.trainer import Trainer, Update

PATIENCE = 1000  # batches without anything to learn before a run gives up


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
    """Drives a `Trainer` in a run folder; the work between updates happens at the end of sequences."""

    def __init__(self, config: RunConfig, folder: Path, observer: Observer, clock: Clock | None = None):
        self.config, self.folder, self.observer = config, folder, observer
        self.clock = clock or Clock()
        self.task = build_task(config.task)
        check_run(config, type(self.task))
        self.task.require_splits(config.train.batch, config.train.evaluate_batch)
        self.trainer = Trainer(config, self.task)
        self.checkpoints = Checkpoints(folder, config.train.keep)
        self.log = MetricsLog(folder)
        self.pending: list[Update] = []
        self.mark, self.read = self.clock.now(), 0  # time and tokens at the last line of the log
        self.barren = 0  # batches in a row without anything to learn

    def run(self) -> dict[str, Any]:
        """Train to the last step or to the target, test the best checkpoint, write result.json."""
        return answered(self.life(), self.trainer.answer)

    def life(self) -> Generator[Request, Answer, dict[str, Any]]:
        """A whole run; whoever drives this makes the updates it asks for."""
        with self.clock.paused():
            self.resume()
        if self.trainer.hindrance and self.config.compile != "off":
            self.observer.note(f"updates are not recorded: {self.trainer.hindrance}")
        budget = self.config.train.steps
        self.mark, self.read = self.clock.now(), self.trainer.tokens
        while self.trainer.step < budget and not self.trainer.reached:
            before = self.trainer.step
            yield from self.sequence(budget)
            self.between(before, final=self.trainer.step >= budget)
        with self.clock.paused():
            return self.finish()

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        saved = self.checkpoints.newest(self.observer.warning)
        self.trainer.fabric.barrier()  # before the first process tidies up
        if saved is not None:
            restore(self.trainer, saved)
            self.observer.note(f"resuming at step {self.trainer.step}")
        elif self.checkpoints.steps():
            self.observer.warning("no checkpoint is whole: starting anew")
        if is_first():
            self.checkpoints.rewind(self.trainer.step, self.trainer.best_step)
            self.log.rewind(self.trainer.step)

    def sequence(self, budget: int) -> Generator[Request, Answer, None]:
        """Train on the next batch, within the budget of updates."""
        before = self.trainer.step
        for portion in self.trainer.portions():
            self.pending += yield from self.trainer.learn(portion)
            if self.trainer.step >= budget:
                break
        self.barren = self.barren + 1 if self.trainer.step == before else 0
        if self.barren == PATIENCE:
            raise ConfigError(
                f"{PATIENCE} batches of task {self.task.name!r} in a row have no target under the loss; "
                "set loss_mask where there is something to learn"
            )

    def between(self, before: int, final: bool) -> None:
        """What is due between two sequences: log, promote, evaluate, save."""
        train, step = self.config.train, self.trainer.step

        def due(every: int) -> bool:
            return final or before // every != step // every

        if due(train.log_every) or due(train.evaluate_every) or due(train.save_every):
            self.check()
            self.promote(self.write_log())
        best = due(train.evaluate_every) and self.evaluate()
        if best or due(train.save_every):
            saved = snapshot(self.trainer)
            if is_first():
                self.checkpoints.save(step, saved, best)

    def check(self) -> None:
        """Fetch the pending updates from the device and stop at the first that is not a number."""
        self.pending = self.trainer.told(self.pending)
        for step, update in enumerate(self.pending, self.trainer.step - len(self.pending) + 1):
            self.require_finite("loss", update.loss, step)
            self.require_finite("gradient_norm", update.norm, step)

    def write_log(self) -> float:
        """Write the mean of the pending updates and forget them; returns their accuracy."""
        counted = sum(update.counted for update in self.pending)
        accuracy = sum(update.correct for update in self.pending) / counted
        elapsed = self.clock.now() - self.mark
        self.trainer.seconds += elapsed
        record = {
            "step": self.trainer.step,
            "loss": sum(update.loss for update in self.pending) / len(self.pending),
            "train_accuracy": accuracy,
            "gradient_norm": self.pending[-1].norm,
            "rate": self.trainer.rate.factor(self.trainer.step - 1),
            "stage": self.trainer.curriculum.number,
            **({"overflowed": self.trainer.overflowed} if self.trainer.slots else {}),
            "tokens_per_second": (self.trainer.tokens - self.read) / elapsed,
            "seconds": self.trainer.seconds,
        }
        self.tell(record, self.observer.logged)
        self.pending, self.read, self.mark = [], self.trainer.tokens, self.clock.now()
        return accuracy

    def tell(self, record: dict[str, Any], heard: Callable[[dict[str, Any]], None]) -> None:
        """Write a line of the log and say it."""
        if is_first():
            self.log.write(record)
        heard(record)

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
        with self.clock.paused(), trainer.uncompiled(), gathered(trainer.model):
            metrics = measure(
                trainer.model,
                self.task,
                self.config,
                "valid",
                samples=self.task.samples("valid", self.config.train.evaluate_samples),
                thorough=False,
            )
        metrics = trainer.fabric.broadcast(metrics)  # all go on from the same numbers
        trainer.rate.evaluated(metrics["loss"])
        value = metrics[self.task.metric]
        sign = self.task.sign
        best = sign * value > trainer.best
        if best:
            trainer.best, trainer.best_step = sign * value, trainer.step
        trainer.reached = trainer.curriculum.finished and target is not None and sign * value >= sign * target
        record = {"step": trainer.step, "split": "valid", **metrics}
        self.tell(record, self.observer.evaluated)
        return best

    def finish(self) -> dict[str, Any]:
        """Test the best checkpoint on the whole test split and write result.json."""
        result = self.result() if is_first() else {}
        return dict(self.trainer.fabric.broadcast(result))

    def result(self) -> dict[str, Any]:
        """What result.json says."""
        model = load(self.folder).to(self.trainer.fabric.device)
        metrics = measure(model, self.task, self.config, "test", progress=self.observer.testing)
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
            "samples": trainer.samples,
            "tokens": trainer.tokens,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "state_bytes": model.initial_state(1).nbytes,
            "processes": trainer.fabric.world_size,
            "config": to_dict(config),
            "environment": environment(trainer.fabric.device),
        }
        write_json(self.folder / "result.json", result)
        return result
