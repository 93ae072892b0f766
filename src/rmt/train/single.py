"""The updates of one run: its model, alone on a device or spread over processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from rmt.core.bptt import state_after
from rmt.core.model import Output, SegmentModel
from rmt.core.recording import Recorder, compile_parts
from rmt.core.serving import MOST, served
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.tasks.segments import Segment
from rmt.train.config import RunConfig
from rmt.train.device import device_of
from rmt.train.mixed import mixed
from rmt.train.optim import Rate, build_optimizers
from rmt.train.parallel import gathered, shard, whole
from rmt.train.processes import launch
from rmt.train.update import Updater, without_targets

RANK_STRIDE = 7919  # between the seeds of processes, for dropout: a prime, so that runs of near seeds differ


class SingleUpdater(Updater):
    """One model and its optimizers, set up for a device and for as many processes as there are."""

    def __init__(self, config: RunConfig):
        self.config = config
        self.fabric = launch(
            device_of(config.device), config.precision, config.train.batch, config.train.accumulate
        )
        on_gpu = self.fabric.device.type == "cuda"
        self.set_up_torch(on_gpu)
        self.model, self.wrapped = self.build_model()
        self.accelerated = config.compile != "off" and on_gpu and config.strategy != "fsdp"
        self.parameters = dict(self.model.named_parameters())
        self.optimizers = build_optimizers(self.parameters.items(), config.optimizer, self.accelerated)
        self.rate = Rate(config.rate, config.train.steps)
        if self.fabric.world_size > 1:
            torch.manual_seed(config.seed + RANK_STRIDE * self.fabric.global_rank)  # each its own dropout
        with gathered(self.model):
            self.form = self.model.empty_state(1)
        self.reason_not_recorded = self.why_not_recorded() if on_gpu else ""
        half, most = config.precision == "bf16-mixed", 0 if config.bptt.checkpoint else MOST
        self.served = served(self.model, half, most=most) if self.accelerated else None
        self.recorder = Recorder(self.step, self.accelerated and not self.reason_not_recorded)
        self.compiled = self.accelerated and config.compile == "auto" and self.served is None
        if self.compiled:
            compile_parts(self.model)

    def set_up_torch(self, on_gpu: bool) -> None:
        """Precision of products, threads and seed, as the run has them."""
        if on_gpu:
            torch.set_float32_matmul_precision("high")
        elif self.config.compile == "record":
            raise ConfigError("compile=record has no effect on a CPU; leave it out, or use a GPU")
        if self.config.threads:
            torch.set_num_threads(self.config.threads)
        torch.manual_seed(self.config.seed)

    def build_model(self) -> tuple[SegmentModel, Callable[..., Output]]:
        """The model on its device, and as it is called."""
        model = self.fabric.setup_module(SegmentModel(self.config.model))
        if self.config.strategy == "fsdp":
            shard(model, self.fabric)
        return model, mixed(model, self.fabric) if self.config.precision == "bf16-mixed" else model

    def why_not_recorded(self) -> str:
        """Why updates on a GPU cannot be recorded, if they cannot."""
        reasons = {
            "strategy=fsdp gathers and drops parameters": self.config.strategy == "fsdp",
            "bptt.checkpoint sets the random state": self.config.bptt.checkpoint,
            "several processes talk to each other": self.fabric.world_size > 1,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def encode(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output:
        """A segment's losses, if it has targets, and the state behind it."""
        has_targets = segment.targets.shape[-1] > 0
        wanted = {"targets": segment.targets, "capacities": capacities} if has_targets else {"predict": False}
        model = self.wrapped
        context: AbstractContextManager[object] = nullcontext()
        if self.model.backbone.prepared is not None:  # `mixed` would cast the state, too
            model, context = self.model, self.fabric.autocast()
        with context:
            output: Output = model(segment.tokens, state, reset=segment.reset, **wanted)
        return output

    def clip(self, largest: float) -> Tensor:
        """Scale the gradient down to the largest norm; returns its own, ()."""
        return whole(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), largest))

    def state_behind(self, segments: Sequence[Segment], state: State) -> State:
        """The state behind segments that nothing is learned from."""
        sent = [self.fabric.to_device(without_targets(segment)) for segment in segments]
        with self.uncompiled():
            return state_after(self.encode, sent, state)

    def uncompiled(self) -> AbstractContextManager[object]:
        """While this is open, layers run as written: calls of many shapes are not worth compiling."""
        return torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()
