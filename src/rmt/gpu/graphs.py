"""Work on a GPU as CUDA graphs: all kernels of a call launched at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

Work = Callable[..., tuple[Tensor, ...]]
MAX_RECORDINGS = 8  # of one recorder; each keeps the inputs and outputs of its calls
MAX_REMEMBERED = 64  # calls of which is known when they came last


class Recorder:
    """Calls `work(kind, *inputs)`, and records it when the same call comes a second time.

    Two calls are the same if their `kind`, their precision and the shapes of their inputs are: then the work
    is, too. A few recordings are kept; one makes room for a call that came twice since it was last replayed,
    so that calls which take turns, more than are kept, do not drive each other out. Recordings share their
    memory, since one is replayed at a time.
    """

    def __init__(self, work: Work, enabled: bool, device: torch.device | None = None):
        """Inputs that are not on the `device`, if one is given, are sent there."""
        self.work, self.enabled, self.device = work, enabled, device
        self.forget()

    def forget(self) -> None:
        """Drop all recordings: what they read or change is elsewhere now."""
        self.calls = 0
        self.last_came: dict[Hashable, int] = {}  # number of the last call that was the same, oldest first
        self.recordings: dict[Hashable, Captured] = {}
        self.pool: Any = None

    def __call__(self, kind: Hashable, *inputs: Tensor) -> tuple[Tensor, ...]:
        call = (kind, *autocast_state(), *((tensor.shape, tensor.dtype) for tensor in inputs))
        before = self.remember(call)
        if call in self.recordings:
            return self.recordings[call](*inputs)
        if not (self.enabled and before and self.make_room(before)):
            return self.run(kind, *inputs)
        self.recordings[call] = recording = Captured(self.work, self.pool, kind, *self.placed(inputs))
        self.pool = recording.graph.pool()
        return recording(*inputs)

    def run(self, kind: Hashable, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The work as it is, neither recorded nor remembered."""
        return self.work(kind, *self.placed(inputs))

    def placed(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Inputs on the device."""
        return inputs if self.device is None else tuple(sent(tensor, self.device) for tensor in inputs)

    def remember(self, call: Hashable) -> int:
        """Number a call; returns the number of the last that was the same, 0 for none."""
        self.calls += 1
        before = self.last_came.pop(call, 0)
        self.last_came[call] = self.calls
        if len(self.last_came) > MAX_REMEMBERED:
            del self.last_came[next(iter(self.last_came))]
        return before

    def make_room(self, since: int) -> bool:
        """Whether one more recording may be kept; one that was not replayed since that call is dropped."""
        if len(self.recordings) < MAX_RECORDINGS:
            return True
        oldest = min(self.recordings, key=lambda call: self.last_came.get(call, 0))
        if self.last_came.get(oldest, 0) > since:
            return False
        del self.recordings[oldest]
        return True


class Captured:
    """Work on tensors, recorded once and replayed; recording it does nothing yet.

    Inputs are copied to where the recording reads them, outputs from where it writes them. What else it
    reads or changes has to stay where it is, as parameters and optimizer states do.
    """

    def __init__(self, work: Work, pool: Any, kind: Hashable, *inputs: Tensor):
        self.inputs = tuple(tensor.clone() for tensor in inputs)
        self.graph = torch.cuda.CUDAGraph()
        device = inputs[0].device
        # threads that watch the messages of processes talk to the device meanwhile
        mode = "thread_local" if torch.distributed.is_initialized() else "global"
        stream = torch.cuda.Stream(device)
        graph = torch.cuda.graph(self.graph, pool=pool, stream=stream, capture_error_mode=mode)
        gc.collect()
        with torch.cuda.device(device), uncollected(), autocast_without_cache(), graph:
            self.outputs = work(kind, *self.inputs)

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        for recorded, tensor in zip(self.inputs, inputs, strict=True):
            recorded.copy_(pinned(tensor), non_blocking=True)
        self.graph.replay()
        return tuple(output.clone() for output in self.outputs)


def autocast_state() -> tuple[bool, torch.dtype]:
    """Whether products on a GPU are in another number format now, and in which."""
    return torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")


@contextmanager
def autocast_without_cache() -> Iterator[None]:
    """Autocast as it is, but without weights that were cast before and will be gone."""
    enabled, dtype = autocast_state()
    with torch.autocast("cuda", dtype, cache_enabled=False) if enabled else nullcontext():
        yield


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected while this is open: an old recording must not be dropped inside a new one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on the device, without waiting for it."""
    if device.type == "cuda":
        tensor = pinned(tensor)
    return tensor.to(device, non_blocking=True).contiguous()


def pinned(tensor: Tensor) -> Tensor:
    """A tensor from where a GPU takes it without the host: its own memory, or pages that stay in place."""
    return tensor.pin_memory() if tensor.device.type == "cpu" else tensor
