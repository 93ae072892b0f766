"""Optimizers and the learning rate over time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rmt.train.config import OptimizerConfig, RateConfig
from rmt.train.eager import Adam, AdamW
from rmt.train.muon import Muon
from rmt.train.warmup import warmup_steps


def build_optimizers(
    named: Iterable[tuple[str, Tensor]],
    config: OptimizerConfig,
    recorded: bool = False,
    stacked: bool = False,
) -> list[Optimizer]:
    """Adam or AdamW on everything; or Muon on the layers' matrices and AdamW on the rest.

    Queries, keys and values are one matrix to Muon. A step that is `recorded` finds its rates on the device.
    Parameters that are `stacked` have a leading dimension: many models, each updated by itself.
    """
    parameters = dict(named)
    device = next(iter(parameters.values())).device

    def rate(value: float) -> float | Tensor:
        return torch.tensor(value, device=device) if recorded else value

    adam: dict[str, Any] = {"lr": rate(config.lr), "betas": (config.beta1, config.beta2)}
    if recorded:
        adam |= {"fused": True, "capturable": True}
    if config.name == "adam":
        return [Adam(parameters.values(), **adam)]
    adam["weight_decay"] = config.weight_decay
    if config.name == "adamw":
        return [AdamW(parameters.values(), **adam)]
    matrices = {
        name: parameter
        for name, parameter in parameters.items()
        if ".layers." in name and parameter.ndim - stacked == 2
    }
    rest = [parameter for name, parameter in parameters.items() if name not in matrices and parameter.numel()]
    muon = Muon(matrices.values(), rate(config.matrix_lr), config.momentum, config.weight_decay)
    return [muon, AdamW(rest, **adam)]


class Rate:
    """The factor on every learning rate: warm-up, then constant, linear, cosine, or halving on a plateau."""

    def __init__(self, config: RateConfig, steps: int):
        self.config, self.steps = config, steps
        self.warmup = warmup_steps(config.warmup, steps)
        self.falls_from: int | None = self.warmup  # none while it is held
        self.best, self.waited, self.fallen = sys.float_info.max, 0, 1.0
        self.scale = 1.0  # smaller where a run went back, since it had diverged

    def apply(self, optimizers: Iterable[Optimizer], step: int) -> None:
        """Set the learning rates of update number `step`, counted from zero."""
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                if "initial_lr" not in group:  # once, since it waits for the device if the rate is there
                    group["initial_lr"] = float(group["lr"])
                lr = group["initial_lr"] * self.factor(step)
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(lr)
                else:
                    group["lr"] = lr

    def hold(self) -> None:
        """Let rates stay where the warm-up brings them until they are to fall."""
        self.falls_from = None

    def fall_from(self, step: int) -> None:
        """Let rates that are held fall from a step on, and from behind the warm-up."""
        if self.falls_from is None:
            self.falls_from = max(self.warmup, step)

    def factor(self, step: int) -> float:
        """What every learning rate is multiplied by in update number `step`."""
        return self.scale * self.scheduled(step)

    def scheduled(self, step: int) -> float:
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.falls_from is None or step < self.falls_from:
            return 1.0
        done = (step - self.falls_from) / max(1, self.steps - self.falls_from)
        low = self.config.minimum
        shape = {
            "constant": 1.0,
            "linear": low + (1 - low) * (1 - done),
            "cosine": low + (1 - low) * (1 + math.cos(math.pi * done)) / 2,
            "plateau": max(low, self.fallen),
        }
        return shape[self.config.schedule]

    def evaluated(self, loss: float) -> None:
        """Learn of a validation loss: after `patience` evaluations without a better one, fall."""
        if self.falls_from is None:
            return
        if loss < self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited > self.config.patience:
            self.fallen, self.waited = self.fallen * self.config.factor, 0

    def state_dict(self) -> dict[str, float | None]:
        names = ("best", "waited", "fallen", "scale", "falls_from")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited, self.fallen = state["best"], state["waited"], state["fallen"]
        self.scale = state.get("scale", 1.0)  # releases before 1.0 had none
        self.falls_from = state.get("falls_from", self.warmup)  # nor were their rates held
