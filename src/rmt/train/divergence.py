"""A loss that is no number: what is kept then, and the way back to the last good checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from rmt.errors import RMTError
from rmt.train.checkpoint import Checkpoints, Snapshot
from rmt.train.snapshots import restore
from rmt.train.trainer import Trainer

MAX_TIMES_BACK = 5  # then the rate is 1/32 of what was asked for: it is not the rate
SMALLER = 0.5  # the rate is multiplied by this each time


class Diverged(RMTError):
    """The loss stopped being a number."""

    exit_code = 1

    def __init__(self, message: str, step: int):
        super().__init__(message)
        self.step = step


def require_finite(name: str, value: float, step: int, checkpoints: Checkpoints) -> None:
    """Raise for a number that is none, and say which checkpoint there is."""
    if math.isfinite(value):
        return
    raise Diverged(
        f"{name}={value} at step {step}: training diverged; {kept(checkpoints)}; lower optimizer.lr and "
        "start anew with --restart, or with --restart --on_nan back",
        step,
    )


def require_finite_weights(snapshot: Snapshot, step: int, checkpoints: Checkpoints) -> None:
    """Raise before weights are saved that are not all numbers: every checkpoint there is is a good one."""
    finite = all_finite(snapshot.model.values())
    require_finite("weight", 0.0 if finite else math.nan, step, checkpoints)


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all elements are numbers; the host waits for the device once."""
    return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())


def kept(checkpoints: Checkpoints) -> str:
    """Which checkpoint a run that has diverged has."""
    newest = checkpoints.newest(lambda warning: None)
    if newest is None:
        return f"no checkpoint was saved before, so {checkpoints.folder.parent} keeps none"
    return f"the checkpoint of step {newest.trainer['step']} is kept in {checkpoints.folder}"


def go_back(trainer: Trainer, saved: Snapshot, error: Diverged) -> dict[str, Any]:
    """Go on from a snapshot with a smaller rate than now; returns a record of it for the log.

    Killed and resumed, a run goes the same way again.
    """
    if trainer.times_back == MAX_TIMES_BACK:
        raise Diverged(f"{error}; it has gone back {MAX_TIMES_BACK} times already", error.step)
    scale, times_back = trainer.rate.scale * SMALLER, trainer.times_back + 1
    restore(trainer, saved)
    trainer.rate.scale, trainer.times_back = scale, times_back
    return {
        "step": trainer.step,
        "diverged_at": error.step,
        "times_back": times_back,
        "rate_scale": scale,
    }


def in_words(record: dict[str, Any]) -> str:
    """A way back, for whoever watches."""
    return (
        f"training diverged at step {record['diverged_at']}; going back to step {record['step']} with "
        f"learning rates times {record['rate_scale']} ({record['times_back']} of at most {MAX_TIMES_BACK})"
    )
