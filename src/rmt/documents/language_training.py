"""A decoder learns a text: an update per batch of sequences, saved to go on as if never stopped."""

# B sequences · T tokens of a sequence · V vocabulary

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.documents.job import FinetuneObserver
from rmt.documents.language_config import LanguageConfig
from rmt.documents.language_text import LanguageText, TrainingSpans
from rmt.documents.resuming import optimizer_tensors, put_optimizer, put_weights, require_learning, weights
from rmt.documents.trainer import groups, slope
from rmt.errors import CheckpointError, ConfigError
from rmt.precision import products
from rmt.seal import newest_whole
from rmt.stopping import REQUEST, Stopped
from rmt.train.checkpoint import Checkpoints, Snapshot, load_parts
from rmt.train.log import MetricsLog

LOGS = 100  # lines of loss in the log of a run, about


@dataclass(frozen=True, kw_only=True)
class LanguageJob:
    """What an arm is trained with: its model, the text, where it is kept, who is told."""

    config: LanguageConfig
    model: Any
    text: LanguageText
    length: int  # tokens of a segment
    folder: Path
    observer: FinetuneObserver

    @property
    def sequence(self) -> int:
        """Tokens of a training sequence."""
        return self.config.segments * self.length

    @property
    def tokens_per_step(self) -> int:
        return self.config.batch * self.sequence

    @property
    def steps(self) -> int:
        if self.config.tokens < self.tokens_per_step:
            raise ConfigError(
                f"tokens={self.config.tokens} are fewer than the {self.tokens_per_step} of one update; use "
                "more, or a smaller batch"
            )
        return self.config.tokens // self.tokens_per_step

    @property
    def evaluate_every(self) -> int:
        return self.config.evaluate_every or max(1, self.steps // 8)


class LanguageTraining:
    """Model, optimizer and schedule of one arm; `run` begins it or goes on with it."""

    def __init__(self, job: LanguageJob):
        self.job, self.model, self.step, self.seconds = job, job.model, 0, 0.0
        self.spans = TrainingSpans(job.text.splits["train"], job.sequence, job.config.seed)
        self.optimizer = torch.optim.AdamW(groups(job.model, job.config), lr=job.config.lr)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, slope(job.steps, job.config.warmup))
        self.store, self.log = Checkpoints(job.folder), MetricsLog(job.folder)
        self.parameters = [parameter for parameter in job.model.parameters() if parameter.requires_grad]
        self.pending: list[Tensor] = []  # losses that nothing has waited for
        self.unlogged: list[float] = []  # those before that no line of the log has

    def run(self, evaluate: Callable[[int], dict[str, Any]]) -> None:
        """Train to the end, measured and saved on the way; a signal saves and stops."""
        job = self.job
        job.observer.note(f"{job.steps:,} steps of {job.tokens_per_step:,} tokens")
        self.resume()
        job.observer.begin(job.steps)
        with REQUEST.deferred():
            while self.step < job.steps:
                began = time.monotonic()
                self.update()
                logs = self.is_due(max(1, job.steps // LOGS))
                evaluates, signal = self.is_due(job.evaluate_every), REQUEST.signal
                if logs or evaluates or signal:
                    self.wait_for_losses()
                self.seconds += time.monotonic() - began
                if logs:
                    self.write_log()
                if evaluates:
                    self.log.write(record := evaluate(self.step))
                    job.observer.evaluated(record)
                if evaluates or signal:
                    self.store.save(self.step, self.snapshot(), best=False)
                if signal:
                    saved = f"step {self.step} is saved in {self.store.folder}"
                    raise Stopped(signal, f"{saved}; the same command goes on")

    def is_due(self, every: int) -> bool:
        """Whether something is due now: every so many updates, and behind the last."""
        return self.step % every == 0 or self.step == self.job.steps

    def update(self) -> None:
        """One update, of sequences in parts as long as the curriculum has come."""
        config, device = self.job.config, self.parameters[0].device
        rows = self.spans.rows(self.step * config.batch, config.batch).to(device)
        size = self.job.length * segments_read(config, self.step / self.job.steps)
        tokens, targets = (part.reshape(-1, size) for part in (rows[:, :-1], rows[:, 1:]))
        self.model.train()
        with products(config.precision, device):
            logits = self.model(input_ids=tokens).logits
        loss = losses(logits, targets).mean()
        self.optimizer.zero_grad()
        loss.backward()
        if config.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, config.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        self.pending.append(loss.detach())

    def wait_for_losses(self) -> None:
        """Wait for the pending losses; the first that is no number ends the run."""
        losses = torch.stack(self.pending).tolist()
        for step, loss in enumerate(losses, self.step - len(losses) + 1):
            require_learning("loss", math.isfinite(loss), step, self.store)
        self.unlogged, self.pending = self.unlogged + losses, []

    def write_log(self) -> None:
        """Write a line of the log with the mean loss since the line before."""
        losses, self.unlogged = self.unlogged, []
        record = {
            "step": self.step,
            "tokens": self.step * self.job.tokens_per_step,
            "loss": sum(losses) / len(losses),
            "rate": self.schedule.get_last_lr()[0],
        }
        self.log.write(record)
        self.job.observer.logged(record)

    def snapshot(self) -> Snapshot:
        """Everything that has to survive a crash."""
        state = {"rng": torch.get_rng_state()}
        if self.parameters[0].is_cuda:
            state["cuda_rng"] = torch.cuda.get_rng_state(self.parameters[0].device)
        trainer = {
            "step": self.step,
            "best_step": self.step,
            "seconds": self.seconds,
            "unlogged": self.unlogged,
            "schedule": self.schedule.state_dict(),
            "data": self.job.text.fingerprint,
        }
        return Snapshot(weights(self.model), optimizer_tensors(self.optimizer), state, trainer)

    def resume(self) -> None:
        """Go on from the newest whole snapshot, if there is one; what came later is removed."""
        folders = (self.store.folder / f"step_{step}" for step in self.store.steps())
        saved = newest_whole(folders, load_parts, self.job.observer.warning, "checkpoint")
        self.step = saved.trainer["step"] if saved else 0
        if self.store.folder.is_dir():
            self.store.rewind(self.step, self.step)
        self.log.rewind(self.step)
        if saved is None:
            return
        if saved.trainer["data"] != self.job.text.fingerprint:
            raise CheckpointError(
                f"data={self.job.config.data!r} is not the text that this run was trained on; put that back, "
                "or start anew with --restart"
            )
        put_weights(self.model, saved.model)
        put_optimizer(self.optimizer, saved.optimizer, saved.trainer["schedule"]["_last_lr"])
        self.schedule.load_state_dict(saved.trainer["schedule"])
        self.seconds, self.unlogged = saved.trainer["seconds"], saved.trainer.get("unlogged", [])
        torch.set_rng_state(saved.state["rng"])
        if "cuda_rng" in saved.state:
            torch.cuda.set_rng_state(saved.state["cuda_rng"], self.parameters[0].device)
        self.job.observer.note(f"going on from step {self.step}")


def segments_read(config: LanguageConfig, done: float) -> int:
    """Segments of a sequence that are read in one go, when a share of the training is `done`.

    With a curriculum, the divisors of `segments` in turn through the first half of it.
    """
    if config.curriculum == "none":
        return config.segments
    stages = [count for count in range(1, config.segments + 1) if config.segments % count == 0]
    return stages[min(len(stages) - 1, int(2 * done * (len(stages) - 1)))]


def losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each token, (B, T, V) and (B, T) -> (B, T)."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none").view_as(targets)
