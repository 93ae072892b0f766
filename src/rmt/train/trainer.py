"""A batch becomes updates: segments → windows → backward → clip → optimizer, for every model and task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from rmt.core.model import Output, SegmentModel
from rmt.errors import ConfigError
from rmt.tasks.segments import Segment
from rmt.tasks.task import Batch, Task
from rmt.train.bptt import Plan, Unrolled, replay, windows
from rmt.train.checkpoint import Snapshot
from rmt.train.config import RunConfig
from rmt.train.curriculum import Curriculum
from rmt.train.objective import score
from rmt.train.optim import Rate, build_optimizers


class Update(NamedTuple):
    """One optimizer update; tensors, so that nothing waits for the device."""

    loss: Tensor
    correct: Tensor
    counted: int
    norm: Tensor


class Trainer:
    """A model, its optimizers, and the place in the data where they are."""

    def __init__(self, config: RunConfig, task: Task):
        self.config, self.task = config, task
        if config.device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("device=cuda: there is no CUDA device here; use cpu or auto")
        self.fabric = Fabric(accelerator=config.device, devices=1, precision=config.precision)
        torch.manual_seed(config.seed)
        model = SegmentModel(config.model)
        set_up: Any = self.fabric.setup(model, *build_optimizers(model, config.optimizer))
        self.wrapped: nn.Module = set_up[0]
        self.optimizers = list(set_up[1:])
        self.model: SegmentModel = self.wrapped.module  # type: ignore[assignment]
        self.rate = Rate(config.rate, config.train.steps)
        self.curriculum = Curriculum(config.curriculum, task, config.task.segments)
        self.train_set = task.split("train") if config.task.source == "fixed" else None
        self.step = self.batches = self.samples = 0
        self.seconds = 0.0
        self.best = -math.inf

    def next_batch(self) -> Batch:
        """The batch at the current place in the data; the same again after a resume."""
        size, stage = self.config.train.batch, self.curriculum.stage
        if self.train_set is None:
            return stage.task.fresh(size, self.batches, self.config.seed)
        rows = torch.arange(self.batches * size, (self.batches + 1) * size)
        total = len(self.train_set.tokens)
        if self.config.task.shuffle:
            rows = torch.stack([self.shuffled(int(row) // total, total)[row % total] for row in rows])
        return Batch(*(column[rows % total] for column in self.train_set))

    def shuffled(self, epoch: int, total: int) -> Tensor:
        """The order of the fixed training set in an epoch, kept until the next is asked for."""
        if getattr(self, "_order", (-1,))[0] != epoch:
            generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + epoch)
            self._order = (epoch, torch.randperm(total, generator=generator))
        return self._order[1]

    def updates(self, batch: Batch) -> Iterator[Update]:
        """Train on one batch of sequences; yields after every optimizer update."""
        segments = self.cut(batch)
        counts = [int(part.loss_mask.sum()) for part in segments]
        segments = [Segment(*self.fabric.to_device(tuple(part))) for part in segments]
        one_update = self.config.bptt.schedule == "sequence"
        last = max(index for index, count in enumerate(counts) if count)
        losses: list[Tensor] = []
        correct: list[Tensor] = []
        for window, loss in self.unrolled(segments, counts, correct):
            counted = sum(counts) if one_update else sum(counts[index] for index in window.counted)
            loss = loss / counted
            self.fabric.backward(loss)
            losses.append(loss.detach())
            if not one_update or window.stop > last:
                yield Update(torch.stack(losses).sum(), torch.stack(correct).sum(), counted, self.update())
                losses.clear()
                correct.clear()

    def unrolled(
        self, segments: list[Segment], counts: list[int], correct: list[Tensor]
    ) -> Iterator[Unrolled]:
        """The windows of the schedule with their losses; right predictions are appended to `correct`."""

        def loss_of(index: int, output: Output) -> Tensor:
            result = score(output.logits, segments[index].targets, segments[index].loss_mask)
            correct.append(result.correct)
            return result.loss

        bptt = self.config.bptt
        plan = Plan(windows(counts, bptt.depth, bptt.schedule), bptt.replay_from, bptt.checkpoint)
        state = self.model.initial_state(len(segments[0].tokens))
        return replay(self.wrapped, [part.tokens for part in segments], state, loss_of, plan)

    def cut(self, batch: Batch) -> list[Segment]:
        """The segments of a batch at the curriculum's current stage."""
        length = self.curriculum.stage.length
        columns = (column.split(length, dim=1) for column in (batch.tokens, batch.targets, batch.loss_mask))
        return [Segment(*parts) for parts in zip(*columns, strict=True)]

    def update(self) -> Tensor:
        """Clip, step, forget the gradient; returns its norm before clipping."""
        clip = self.config.optimizer.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.rate.apply(self.optimizers, self.step)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return norm

    def snapshot(self) -> Snapshot:
        """Everything that has to survive a crash."""
        optimizer = {
            f"{number}.{parameter}.{name}": torch.as_tensor(value)
            for number, one in enumerate(self.optimizers)
            for parameter, values in one.state_dict()["state"].items()
            for name, value in values.items()
        }
        state = {"rng": torch.get_rng_state()}
        if self.fabric.device.type == "cuda":
            state["cuda_rng"] = torch.cuda.get_rng_state(self.fabric.device)
        return Snapshot(self.model.state_dict(), optimizer, state, self.place())

    def place(self) -> dict[str, Any]:
        """Where the run is, in numbers."""
        return {
            "step": self.step,
            "batches": self.batches,
            "samples": self.samples,
            "seconds": self.seconds,
            "best": self.best,
            "stage": self.curriculum.number,
            "rate": self.rate.state_dict(),
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self.model.load_state_dict(snapshot.model)
        for number, optimizer in enumerate(self.optimizers):
            states: dict[int, dict[str, Tensor]] = {}
            for key, tensor in snapshot.optimizer.items():
                owner, parameter, name = key.split(".", 2)
                if int(owner) == number:
                    states.setdefault(int(parameter), {})[name] = tensor
            optimizer.load_state_dict({**optimizer.state_dict(), "state": states})
        torch.set_rng_state(snapshot.state["rng"])
        if "cuda_rng" in snapshot.state:
            torch.cuda.set_rng_state(snapshot.state["cuda_rng"], self.fabric.device)
        place = dict(snapshot.trainer)
        self.rate.load_state_dict(place.pop("rate"))
        self.curriculum.number = place.pop("stage")
        for name, value in place.items():
            setattr(self, name, value)
