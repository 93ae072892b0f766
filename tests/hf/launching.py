"""Recordings without a GPU: work that is done again where a graph would be launched."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rmt.hf.graphs import done_unsynchronised


class Repeated:
    """Work that is done again on the same tensors."""

    def __init__(self, work: Callable[[], object], launcher: RepeatingLauncher):
        self.work, self.launcher = work, launcher
        work()

    def replay(self) -> None:
        type(self.launcher).replayed += 1
        self.work()


class RepeatingLauncher:
    """Counts what is recorded and replayed, over all models."""

    recorded = 0
    replayed = 0

    def __init__(self, device: torch.device):
        self.device = device

    def prepare(self, work: Callable[[], object]) -> None:
        done_unsynchronised(work, self.device)

    def record(self, work: Callable[[], object], pool: object) -> Repeated:
        type(self).recorded += 1
        return Repeated(work, self)

    def new_pool(self) -> object:
        return object()
