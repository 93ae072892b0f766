"""A batch becomes updates: segments → windows → backward → clip → optimizer, for every model and task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.utils._triton import has_triton

from rmt.core.model import Output, SegmentModel
from rmt.tasks.segments import Segment, cut
from rmt.tasks.task import Batch, Task
from rmt.train.bptt import Plan, Window, replay, windows
from rmt.train.capture import Recorder
from rmt.train.checkpoint import Snapshot
from rmt.train.config import RunConfig
from rmt.train.curriculum import Curriculum
from rmt.train.device import device_of
from rmt.train.objective import score
from rmt.train.optim import Rate, build_optimizers


class Kind(NamedTuple):
    """What two batches have to share, beside their shape, to be one recording."""

    length: int  # tokens per segment
    counted: tuple[bool, ...]  # which segments have a loss


class Update(NamedTuple):
    """One optimizer update; tensors, so that nothing waits for the device."""

    loss: Tensor
    correct: Tensor
    counted: int
    norm: Tensor  # of the gradient, before clipping


class Trainer:
    """A model, its optimizers, and the place in the data where they are."""

    def __init__(self, config: RunConfig, task: Task):
        self.config, self.task = config, task
        self.fabric = Fabric(accelerator=device_of(config.device), devices=1, precision=config.precision)
        on_gpu = self.fabric.device.type == "cuda"
        if on_gpu:
            torch.set_float32_matmul_precision("high")
        if config.threads:
            torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)
        model = SegmentModel(config.model)
        set_up: Any = self.fabric.setup(model, *build_optimizers(model, config.optimizer))
        self.optimizers = list(set_up[1:])
        self.model: SegmentModel = set_up[0].module
        # Fabric hands every output back in float32: too coarse for the memory of a model of doubles.
        self.wrapped: nn.Module = self.model if config.precision == "64-true" else set_up[0]
        self.fast = config.compile == "auto" and on_gpu
        recorded = (
            self.fast and not config.bptt.checkpoint
        )  # recomputing sets the random state: not recordable
        self.differentiate = Recorder(self.gradients, self.model, recorded)
        if self.fast and has_triton():
            for layer in self.model.backbone.layers:
                layer.compile(dynamic=False)
        self.rate = Rate(config.rate, config.train.steps)
        self.curriculum = Curriculum(config.curriculum, task, config.task.segments)
        self.train_set = task.split("train") if config.task.source == "fixed" else None
        self.order = (-1, torch.empty(0))  # epoch, order of the fixed training set in it
        self.step = self.batches = self.samples = 0
        self.seconds = 0.0
        self.best, self.best_step = -1.0, 0  # below every metric
        self.reached = False  # the target

    def next_batch(self) -> Batch:
        """The batch at the current place in the data; the same again after a resume."""
        size, stage = self.config.train.batch, self.curriculum.stage
        if self.train_set is None:
            return stage.task.fresh(size, self.batches, self.config.seed)
        count, total = (
            torch.arange(self.batches * size, (self.batches + 1) * size),
            len(self.train_set.tokens),
        )
        rows, epochs = count % total, count // total
        if self.config.task.shuffle:
            orders = [self.shuffled(int(epoch), total)[rows[epochs == epoch]] for epoch in epochs.unique()]
            rows = torch.cat(orders)
        return Batch(*(column[rows] for column in self.train_set))

    def shuffled(self, epoch: int, total: int) -> Tensor:
        """The order of the fixed training set in an epoch, kept until the next is asked for."""
        if self.order[0] != epoch:
            generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + epoch)
            self.order = (epoch, torch.randperm(total, generator=generator))
        return self.order[1]

    def updates(self, batch: Batch) -> Iterator[Update]:
        """Train on one batch of sequences; yields after every optimizer update, if there is a loss at all."""
        length = self.curriculum.stage.length
        counts = [int(part.sum()) for part in batch.loss_mask.split(length, dim=1)]
        if not any(counts):
            return
        total = torch.tensor(float(sum(counts)))
        whole = Segment(batch.tokens, batch.targets, batch.loss_mask)
        inputs = self.fabric.to_device((total, *whole))
        if self.config.bptt.schedule == "sequence":
            kind = Kind(length, tuple(map(bool, counts)))
            yield self.update(*self.differentiate(kind, *inputs), sum(counts))
            return
        for window, loss, correct in self.unrolled(cut(Segment(*inputs[1:]), length), counts):
            counted = sum(counts[index] for index in window.counted)
            self.fabric.backward(loss / counted)
            yield self.update(loss.detach() / counted, correct, counted)

    def gradients(self, kind: Kind, total: Tensor, *whole: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of the mean loss over whole sequences; returns that loss and the right predictions."""
        losses, correct = [], []
        for _, loss, right in self.unrolled(cut(Segment(*whole), kind.length), kind.counted):
            self.fabric.backward(loss / total)
            losses.append(loss.detach() / total)
            correct.append(right)
        return torch.stack(losses).sum(), torch.stack(correct).sum()

    def unrolled(
        self, segments: list[Segment], counts: Sequence[int]
    ) -> Iterator[tuple[Window, Tensor, Tensor]]:
        """The windows of the schedule, their summed losses and their right predictions."""
        correct: list[Tensor] = []

        def loss_of(index: int, output: Output) -> Tensor:
            result = score(output.logits, segments[index].targets, segments[index].loss_mask)
            correct.append(result.correct)
            return result.loss

        bptt = self.config.bptt
        plan = Plan(windows(counts, bptt.depth, bptt.schedule), bptt.replay_from, bptt.checkpoint)
        state = self.model.initial_state(len(segments[0].tokens))
        for window, loss in replay(self.wrapped, [part.tokens for part in segments], state, loss_of, plan):
            yield window, loss, torch.stack(correct).sum()
            correct.clear()

    def update(self, loss: Tensor, correct: Tensor, counted: int) -> Update:
        """Clip, step, forget the gradient."""
        clip = self.config.optimizer.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.rate.apply(self.optimizers, self.step)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return Update(loss, correct, counted, norm)

    def uncompiled(self) -> AbstractContextManager[object]:
        """While this is open, layers run as written: calls of many shapes are not worth compiling."""
        return torch.compiler.set_stance("force_eager") if self.fast else nullcontext()

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
            "best_step": self.best_step,
            "reached": self.reached,
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
