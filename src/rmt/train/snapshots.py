"""A trainer to and from a snapshot: what all processes know, so that a run goes on as if never stopped."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rmt.errors import CheckpointError
from rmt.gpu.dropout import update_keys
from rmt.train.checkpoint import Snapshot
from rmt.train.parallel import gather_full, placed, rows_of_all
from rmt.train.processes import Processes
from rmt.train.trainer import Trainer, UpdateNumbers
from rmt.train.weights import current_names, model_checksum, require_fit

# numbers that say where a trainer is
COUNTERS = (
    "step",
    "batches",
    "samples",
    "tokens",
    "seconds",
    "best",
    "best_step",
    "reached",
    "overflowed",
    "times_back",
)


def snapshot(trainer: Trainer) -> Snapshot:
    """Everything that has to survive a crash, of all processes: each has to call this."""
    model = {name: gather_full(tensor) for name, tensor in trainer.model.state_dict().items()}
    optimizer = {
        f"{number}.{parameter}.{name}": gather_full(torch.as_tensor(value))
        for number, update_rule in enumerate(trainer.optimizers)
        for parameter, values in update_rule.state_dict()["state"].items()
        for name, value in values.items()
    }
    local = {**random_state(trainer), **trainer.feed.state_dict()}
    state = {key: rows_of_all(rows) for key, rows in local.items()}
    return Snapshot(model, optimizer, state, position(trainer))


def position(trainer: Trainer) -> dict[str, Any]:
    """Where a run is, in numbers, and what it must share with the run that goes on from there."""
    return {
        **{name: getattr(trainer, name) for name in COUNTERS},
        "unlogged": [list(update) for update in trainer.unlogged],
        "stage": trainer.curriculum.number,
        "rate": trainer.rate.state_dict(),
        "data": trainer.task.fingerprint,
        "model": model_checksum(trainer.config.model),
        "processes": trainer.processes.world_size,
    }


def random_state(trainer: Trainer) -> dict[str, Tensor]:
    """Where the random numbers of this process are, (1, bytes)."""
    device = trainer.processes.device
    state = {"rng": torch.get_rng_state()[None].to(device)}
    if device.type == "cuda":
        state["cuda_rng"] = torch.cuda.get_rng_state(device)[None].to(device)
    return state


def restore(trainer: Trainer, saved: Snapshot) -> None:
    """Go on from a snapshot."""
    require_same(trainer, saved)
    processes, current = trainer.processes, trainer.model.state_dict()
    weights = current_names(saved.model)
    trainer.model.load_state_dict({name: placed(weights[name], current[name]) for name in current})
    for number, optimizer in enumerate(trainer.optimizers):
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        states: dict[int, dict[str, Tensor]] = {}
        for key, tensor in saved.optimizer.items():
            owner, index, name = key.split(".", 2)
            if int(owner) == number:
                states.setdefault(int(index), {})[name] = placed(tensor, parameters[int(index)])
        optimizer.load_state_dict({**optimizer.state_dict(), "state": states})
    count, rank = processes.world_size, processes.global_rank
    local = {key: rows.tensor_split(count)[rank] for key, rows in saved.state.items()}
    restore_random(trainer, local.pop("rng"), local.pop("cuda_rng", None), saved.trainer)
    trainer.rate.load_state_dict(saved.trainer["rate"])
    trainer.curriculum.number = saved.trainer["stage"]
    for name in COUNTERS:
        setattr(
            trainer, name, {"times_back": 0, **saved.trainer}[name]
        )  # releases before 1.0 never went back
    trainer.unlogged = [UpdateNumbers(*numbers) for numbers in saved.trainer.get("unlogged", [])]
    trainer.feed.load_state_dict(local, trainer.batches)
    trainer.updater.forget_recordings()  # optimizer states are elsewhere now


def restore_random(
    trainer: Trainer, rng: Tensor, cuda_rng: Tensor | None, position_saved: dict[str, Any]
) -> None:
    """Go on with the random numbers of this process; among more or fewer processes, with new ones."""
    processes = trainer.processes
    if position_saved["processes"] != processes.world_size:
        keys = update_keys(trainer.config.seed, position_saved["step"], processes.global_rank)
        torch.manual_seed(int(keys[0]))
        return
    torch.set_rng_state(rng[0].clone())
    if cuda_rng is not None:
        torch.cuda.set_rng_state(cuda_rng[0].clone(), processes.device)


def change_of_processes(trainer: Trainer, saved: Snapshot) -> str:
    """What to know where a run goes on among more or fewer processes than before, if it does."""
    before, now = saved.trainer["processes"], trainer.processes.world_size
    if before == now:
        return ""
    return f" among {now} processes instead of {before}: sums and dropout differ from here on"


def require_same_step(processes: Processes, saved: Snapshot | None) -> None:
    """Refuse to go on where processes see different checkpoints, as without a shared file system."""
    step = 0 if saved is None else saved.trainer["step"]
    first = processes.broadcast(step)
    if step != first:
        raise CheckpointError(
            f"process {processes.global_rank} finds checkpoint {step} and the first process {first}; "
            "all processes need the same run folder: name one on a shared file system with --out"
        )


def require_same(trainer: Trainer, saved: Snapshot) -> None:
    """Refuse a snapshot of other data."""
    if saved.trainer["data"] not in ("", trainer.task.fingerprint):  # release 0.1.0 kept none of memory-qa
        raise CheckpointError(
            f"task.data={trainer.config.task.data!r} is not the corpus this run was trained on; "
            "prepare that one again, or start anew with --restart"
        )
    require_fit(trainer.config.model, saved, "its config.yaml, or use --restart")
