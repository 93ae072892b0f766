"""The updates of one run: its model, alone on a device or spread over processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from rmt.core.bptt import state_after
from rmt.core.model import Output, SegmentModel
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.gpu.engine import FORMATS, Engine, why_not_served
from rmt.gpu.graphs import Recorder
from rmt.precision import MIXED
from rmt.tasks.segments import Segment
from rmt.train.config import RunConfig
from rmt.train.deterministic import REASON_NOT_SERVED
from rmt.train.device import device_name, device_of
from rmt.train.mixed import mixed
from rmt.train.optim import Rate, build_optimizers
from rmt.train.parallel import SharedGradients, gather_full, gathered, shard
from rmt.train.processes import launch
from rmt.train.update import Updater, without_targets

RANK_STRIDE = 7919  # between the seeds of processes, for dropout: a prime, so that runs of near seeds differ


class SingleUpdater(Updater):
    """One model and its optimizers, set up for a device and for as many processes as there are."""

    def __init__(self, config: RunConfig, frequencies: Tensor | None = None):
        """The output layer of a new model starts at the `frequencies` (V,) of tokens, if they are given."""
        self.config = config
        self.processes = launch(
            device_of(config.device), config.precision, config.train.batch, config.train.accumulate
        )
        on_gpu = self.processes.device.type == "cuda"
        self.set_up_torch(on_gpu)
        self.model, self.wrapped = self.build_model(frequencies)
        self.accelerated = config.compile != "off" and on_gpu and config.strategy != "fsdp"
        self.parameters = dict(self.model.named_parameters())
        self.optimizers = build_optimizers(self.parameters.items(), config.optimizer, self.accelerated)
        self.rate = Rate(config.rate, config.train.steps)
        if self.processes.world_size > 1:
            torch.manual_seed(config.seed + RANK_STRIDE * self.processes.global_rank)  # each its own dropout
        with gathered(self.model):
            self.form = self.model.empty_state(1)
        self.reason_not_served = self.why_not_served() if on_gpu else ""
        self.engine = None
        if on_gpu and not self.reason_not_served:
            dtype = FORMATS[self.processes.precision]
            self.engine = Engine(self.model, dtype, recompute=config.bptt.checkpoint)
        self.reason_not_recorded = self.why_not_recorded() if on_gpu else ""
        self.shared = None
        if self.processes.world_size > 1 and config.strategy != "fsdp":
            self.shared = SharedGradients(list(self.parameters.values()))
        records = self.accelerated and not self.reason_not_recorded
        device = self.processes.device
        self.recorder = Recorder(self.step if self.shared is None else self.collect, records, device)
        self.apply_recorder = Recorder(self.apply, records, device)
        self.path = self.describe_path()

    def describe_path(self) -> str:
        """The number format, the device and how updates run on it and why, in a line."""
        device = f"{self.processes.precision} on {device_name(self.processes.device)}"
        if self.processes.device.type != "cuda":
            return device
        unrecorded = self.reason_not_recorded or ("" if self.accelerated else "compile=off")
        reasons = {"recorded": unrecorded, "by the engine": self.reason_not_served}
        if not any(reasons.values()):
            return f"{device}, recorded by the engine"
        ways = (f"not {way}: {reason}" if reason else way for way, reason in reasons.items())
        return f"{device}, {', '.join(ways)}"

    def set_up_torch(self, on_gpu: bool) -> None:
        """Precision of products, threads and seed, as the run has them."""
        if on_gpu:
            torch.set_float32_matmul_precision("high")
        elif self.config.compile == "record":
            raise ConfigError("compile=record has no effect on a CPU; leave it out, or use a GPU")
        if self.config.threads:
            torch.set_num_threads(self.config.threads)
        torch.manual_seed(self.config.seed)

    def build_model(self, frequencies: Tensor | None) -> tuple[SegmentModel, Callable[..., Output]]:
        """The model on its device, and as it is called."""
        model = SegmentModel(self.config.model)
        if frequencies is not None:
            model.embedding.start_at(frequencies)
        model = self.processes.setup_module(model)
        if self.config.strategy == "fsdp":
            shard(model, self.processes)
        return model, mixed(model, self.processes) if self.processes.precision == MIXED else model

    def why_not_served(self) -> str:
        """Why the engine leaves updates on a GPU to the plain layers, if it does."""
        if self.config.compile != "auto":
            return f"compile={self.config.compile}"
        if self.config.strategy == "fsdp":
            return "strategy=fsdp gathers and drops parameters"
        if self.config.deterministic:
            return REASON_NOT_SERVED
        return why_not_served(self.model, self.processes.precision)

    def why_not_recorded(self) -> str:
        """Why updates on a GPU cannot be recorded, if they cannot."""
        reasons = {
            "strategy=fsdp gathers and drops parameters": self.config.strategy == "fsdp",
            "bptt.checkpoint sets the random state": self.config.bptt.checkpoint and self.engine is None,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def encode(self, segment: Segment, state: State, capacities: tuple[int, ...] = ()) -> Output:
        """A segment's losses, if it has targets, and the state behind it."""
        has_targets = segment.targets.shape[-1] > 0
        wanted = {"targets": segment.targets, "capacities": capacities} if has_targets else {"predict": False}
        model = self.wrapped
        context: AbstractContextManager[object] = nullcontext()
        if self.engine is not None:  # `mixed` would cast the state, too
            model, context = self.engine.model, self.processes.autocast()
        with context:
            output: Output = model(segment.tokens, state, reset=segment.reset, **wanted)
        return output

    def clip(self, largest: float) -> Tensor:
        """Scale the gradient down to the largest norm; returns its own, ()."""
        return gather_full(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), largest))

    def state_behind(self, segments: Sequence[Segment], state: State, keys: Tensor) -> State:
        """The state behind segments that nothing is learned from; `keys` make the masks of dropout."""
        if self.engine is not None:
            self.engine.begin(keys.to(self.processes.device))
        sent = [self.processes.to_device(without_targets(segment)) for segment in segments]
        return state_after(self.encode, sent, state).with_dtypes_of(self.form)
