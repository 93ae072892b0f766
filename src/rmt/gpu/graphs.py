"""Work on a GPU as CUDA graphs: all kernels of a call launched at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

Work = Callable[..., tuple[Tensor, ...]]
MAX_RECORDINGS = 4  # of one recorder; each keeps the inputs and outputs of its calls


class Recorder:
    """Calls `work(kind, *inputs)`, and records it when the same call comes a second time in a row.

    Two calls are the same if their `kind`, their precision and the shapes of their inputs are: then the work
    is, too. The last few recordings are kept. They share their memory, since one is replayed at a time.
    """

    def __init__(self, work: Work, enabled: bool):
        self.work, self.enabled = work, enabled
        self.forget()

    def forget(self) -> None:
        """Drop all recordings: what they read or change is elsewhere now."""
        self.last: Hashable = None
        self.recordings: dict[Hashable, Captured] = {}
        self.pool: Any = None

    def __call__(self, kind: Hashable, *inputs: Tensor) -> tuple[Tensor, ...]:
        call = (kind, *autocast_state(), *((tensor.shape, tensor.dtype) for tensor in inputs))
        if self.enabled and call == self.last and call not in self.recordings:
            while len(self.recordings) >= MAX_RECORDINGS:
                del self.recordings[next(iter(self.recordings))]  # the oldest
            self.recordings[call] = recording = Captured(self.work, self.pool, kind, *inputs)
            self.pool = recording.graph.pool()
        self.last = call
        if call in self.recordings:
            return self.recordings[call](*inputs)
        return self.work(kind, *inputs)


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
            recorded.copy_(tensor, non_blocking=True)
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
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True).contiguous()
