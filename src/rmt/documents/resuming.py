"""transformers' Trainer over the checkpoints of a run: all that it needs to go on as if never stopped.

The Trainer has files of its own for that. They can be half there, and the loss since the last line of the log
is not among them. So a snapshot of everything is kept as `rmt train` keeps its own: whole, or not at all.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rmt.documents.job import FinetuneJob
from rmt.errors import CheckpointError
from rmt.seal import newest_whole
from rmt.store import write_json
from rmt.train.checkpoint import Checkpoints, Snapshot, load_parts
from rmt.train.divergence import Diverged, all_finite, kept
from rmt.train.parallel import rows_of_all
from rmt.train.processes import is_first

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = object

TRAINER_STATE = "trainer_state.json"  # the file that a Trainer looks for
BY_RELEASES_BEFORE = "checkpoint-*"  # folders of checkpoints that nothing proves to be whole


class ResumableTrainer(Trainer):
    """What stands in front of a Trainer: where it would save and load files, snapshots are."""

    job: FinetuneJob
    saved: Snapshot | None  # where the run goes on
    began: float  # on the clock of this process, as if it had trained all the time

    def go_on_from(self, saved: Snapshot | None) -> None:
        """Begin at a snapshot, or at the beginning."""
        self.saved = saved
        self.began = time.monotonic() - (saved.trainer["seconds"] if saved else 0.0)

    @property
    def seconds(self) -> float:
        """Seconds of training, those of processes before this one included."""
        return time.monotonic() - self.began

    def train_on(self) -> None:
        """Train to the end, or to a signal."""
        if self.saved is None:
            self.train()
            return
        self.require_same_updates(self.saved)
        folder = self.job.store.folder / f"step_{self.saved.trainer['step']}"
        if is_first():
            write_json(folder / TRAINER_STATE, self.saved.trainer["state"])
        self.job.processes.barrier()
        self.train(resume_from_checkpoint=str(folder))

    def require_same_updates(self, saved: Snapshot) -> None:
        """Refuse a snapshot of an earlier release whose updates were of more documents than a batch."""
        part, batch = saved.trainer["state"]["train_batch_size"], self.job.config.batch
        if part != self.args.train_batch_size:
            at_once = part * self.job.processes.world_size
            documents = math.ceil(batch / at_once) * at_once
            raise CheckpointError(
                f"this run was trained by updates of {documents} documents, not of batch={batch}; start anew "
                "with --restart"
            )

    def is_over(self) -> bool:
        """Whether training is: at its last step, or at an evaluation that ends the run's patience."""
        state, every = self.state, self.job.evaluate_every
        if state.global_step >= self.job.steps:
            return True
        waited = state.global_step - (state.best_global_step or 0)
        return state.global_step % every == 0 and waited >= every * self.job.config.patience

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        step, best, snapshot = self.state.global_step, self.state.best_global_step, snapshot_of(self)
        require_learning("weight", all_finite(snapshot.model.values()), step, self.job.store)
        if is_first():
            self.job.store.save(step, snapshot, best == step)
        self.job.processes.barrier()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self.saved is not None:
            put_weights(self.job.tuned.model, self.saved.model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self.saved is None:
            return
        scheduler: Any = self.lr_scheduler
        schedule = self.saved.trainer["schedule"]
        scheduler.load_state_dict(schedule)
        put_optimizer(self.optimizer, self.saved.optimizer, schedule["_last_lr"])

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Go on with the random numbers, and with the loss that no line of the log has yet.

        A Trainer calls this last, when its own start has drawn numbers and has set that loss to zero.
        """
        if self.saved is None:
            return
        rank = self.job.processes.global_rank
        torch.set_rng_state(self.saved.state["rng"][rank].clone())
        if "cuda_rng" in self.saved.state:
            torch.cuda.set_rng_state(self.saved.state["cuda_rng"][rank].clone(), self.args.device)
        self._tr_loss.copy_(self.saved.state["loss"][rank])
        self._globalstep_last_logged = self.saved.trainer["logged"]


def require_learning(name: str, is_finite: bool, step: int, store: Checkpoints) -> None:
    """Raise for a loss or weights that are no numbers: none are saved, and every checkpoint is a good one."""
    if not is_finite:
        raise Diverged(
            f"{name}=nan at step {step}: training diverged; {kept(store)}; lower --lr and start anew "
            "with --restart",
            step,
        )


def snapshot_of(trainer: Any) -> Snapshot:
    """Everything that has to survive a crash."""
    device = trainer.args.device
    state = {"rng": torch.get_rng_state()[None], "loss": trainer._tr_loss.detach()[None]}
    if device.type == "cuda":
        state["cuda_rng"] = torch.cuda.get_rng_state(device)[None]
    of_all = {name: rows_of_all(rows.to(device)) for name, rows in state.items()}
    return Snapshot(weights(trainer.model), optimizer_tensors(trainer.optimizer), of_all, position(trainer))


def optimizer_tensors(optimizer: Any) -> dict[str, Tensor]:
    """The state of an optimizer by names for a file."""
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def put_optimizer(optimizer: Any, saved: dict[str, Tensor], rates: Sequence[float]) -> None:
    """Give an optimizer the state of a snapshot, and its groups their rates."""
    states: dict[int, dict[str, Tensor]] = {}
    for key, tensor in saved.items():
        number, name = key.split(".", 1)
        states.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": states})
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def position(trainer: Any) -> dict[str, Any]:
    """Where a run is, in numbers, and what it must share with the run that goes on from there."""
    return {
        "step": trainer.state.global_step,
        "best_step": trainer.state.best_global_step or 0,
        "over": trainer.is_over(),
        "seconds": trainer.seconds,
        "logged": trainer._globalstep_last_logged,
        "schedule": trainer.lr_scheduler.state_dict(),
        "state": without_history(trainer.state),
        "data": trainer.job.fingerprint,
        "processes": trainer.job.processes.world_size,
    }


def without_history(state: Any) -> dict[str, Any]:
    """The numbers of a Trainer: lines are in the log of the run, and its store knows the best model."""
    best = state.best_metric
    replaced = dataclasses.replace(
        state,
        log_history=[],
        stateful_callbacks={},
        best_model_checkpoint=None,
        best_metric=best if best is not None and math.isfinite(best) else None,
    )
    return dataclasses.asdict(replaced)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """What is trained, and the buffers that a model saves, each once, however often it is used."""
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    saved = model.state_dict().keys()
    return {**parameters, **{name: buffer for name, buffer in model.named_buffers() if name in saved}}


@torch.no_grad()
def put_weights(model: nn.Module, saved: dict[str, Tensor]) -> None:
    """Give a model the weights of a snapshot."""
    current = weights(model)
    for name in {**current, **saved}:
        if name not in current or name not in saved or current[name].shape != saved[name].shape:
            raise CheckpointError(
                f"{name} of the backbone is not as it was when this run began; put the old one back, or "
                "start anew with --restart"
            )
        current[name].copy_(saved[name])


def resume(job: FinetuneJob) -> Snapshot | None:
    """The newest whole snapshot of a run; what came later, and what is half there, is removed."""
    store = job.store
    if is_first():
        remove_unproved(store, job)
    folders = (store.folder / f"step_{step}" for step in store.steps())
    saved = newest_whole(folders, load_with_best, job.observer.warning, "checkpoint")
    job.processes.barrier()
    require_same(job, saved)
    step, best = (saved.trainer["step"], saved.trainer["best_step"]) if saved else (0, 0)
    if is_first():
        if store.folder.is_dir():
            store.rewind(step, best)
        job.log.rewind(step)
    job.processes.barrier()
    if saved:
        job.observer.note(f"going on from step {step}")
    return saved


def require_same(job: FinetuneJob, saved: Snapshot | None) -> None:
    """Refuse a snapshot of other documents, or of another number of processes."""
    if saved is None:
        return
    if saved.trainer["data"] != job.fingerprint:
        raise CheckpointError(
            f"data={job.config.data!r} are not the documents that this run was trained on; put those back, "
            "or start anew with --restart"
        )
    if saved.trainer["processes"] != job.processes.world_size:
        raise CheckpointError(
            f"this run was trained by {saved.trainer['processes']} processes, not "
            f"{job.processes.world_size}; start as many, or start anew with --restart"
        )


def load_with_best(folder: Path) -> Snapshot:
    """A snapshot that can be gone on from: it and the best one before it are whole."""
    saved = load_parts(folder)
    if saved.trainer["best_step"]:
        load_parts(folder.with_name(f"step_{saved.trainer['best_step']}"))
    return saved


def remove_unproved(store: Checkpoints, job: FinetuneJob) -> None:
    """Remove the checkpoints of releases that did not prove them to be whole, and say so."""
    for folder in sorted(store.folder.glob(BY_RELEASES_BEFORE)):
        job.observer.warning(
            f"{folder} is a checkpoint of an earlier release, which nothing proves to be whole: it is removed"
        )
        shutil.rmtree(folder)
