"""A segment's forward and backward pass as CUDA graphs: recorded once, each launched by the host at once.

A recording stands in a slot, which has the memory of its activations. From a forward pass until nothing can
ask for its gradient any more the slot is taken, so each segment of a text has its own, and the recordings of
different shapes in one slot share their memory: one of them is in use at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import TorchDispatchMode

from rmt.gpu.graphs import autocast_without_cache, uncollected

aten = torch.ops.aten
LOOKED_AT = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.repeat_interleave.Tensor,
    aten._unique2.default,
}  # functions whose result, or its shape, the host has to wait for
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
COPIES = {aten._to_copy.default, aten.copy_.default}
KEPT_PER_SLOT = 8  # recordings: lengths of ragged segments are rounded up, to four in a segment of 512


class RecordedPass(Protocol):
    """Work that was done once and can be done again, on the same tensors."""

    def replay(self) -> None: ...


class Launcher(Protocol):
    """How work becomes a pass; `pool` is None, or where earlier work of its slot has its memory."""

    def prepare(self, work: Callable[[], object]) -> None:
        """Do the work before it is recorded: for what is done the first time only, and to see if it waits."""

    def record(self, work: Callable[[], object], pool: Any) -> RecordedPass: ...

    def new_pool(self) -> Any: ...


class GraphPass:
    """Work as one CUDA graph."""

    def __init__(self, work: Callable[[], object], pool: Any):
        self.graph = torch.cuda.CUDAGraph()
        self.graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            self.graph.capture_end()

    def replay(self) -> None:
        self.graph.replay()


class GraphLauncher:
    """Records on a stream of its own: forward and backward of a segment have to be on the same."""

    def __init__(self, device: torch.device):
        self.device, self.stream = device, torch.cuda.Stream(device)

    def prepare(self, work: Callable[[], object]) -> None:
        with self.aside():
            done_unsynchronised(work, self.device)

    def record(self, work: Callable[[], object], pool: Any) -> RecordedPass:
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()  # what is cached cannot be given back while a graph is recorded
        with self.aside(), uncollected():
            return GraphPass(work, pool)

    def new_pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Work on the stream of recordings, behind what was launched before and before what comes."""
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            yield
        current.wait_stream(self.stream)


class Recording:
    """One segment's passes, with the tensors they start from and end in."""

    def __init__(self, work: Any, inputs: Sequence[Tensor], weights: Sequence[Tensor], learns: bool):
        """`work` makes an output of inputs, by weights that are its own."""
        self.work, self.weights, self.learns = work, list(weights), learns
        self.inputs = [
            tensor.detach()
            .clone(memory_format=torch.contiguous_format)
            .requires_grad_(learns and tensor.requires_grad)
            for tensor in inputs
        ]
        self.output: Tensor
        self.gradient: Tensor  # of the output
        self.of_inputs: list[Tensor | None] = []
        self.of_weights: GradientBuffers

    def record(self, launcher: Launcher, pool: Any, first: bool) -> Recording:
        """Record both passes; the `first` of its form is done once before."""
        if first:
            launcher.prepare(self.both)
        self.forward_pass = launcher.record(self.forward, pool)
        if self.learns:
            self.gradient = torch.zeros_like(self.output)
            self.backward_pass = launcher.record(self.backward, pool)
        self.output = self.output.detach()  # the graph of autograd ends here, and what it kept is free again
        return self

    def both(self) -> None:
        self.forward()
        if self.learns:
            self.gradient = torch.zeros_like(self.output)
            self.backward()

    def forward(self) -> None:
        with torch.set_grad_enabled(self.learns), autocast_without_cache():
            self.output = self.work(*self.inputs)

    def backward(self) -> None:
        """The gradients; what was kept for them is not overwritten, so they can be asked for twice."""
        asked = [tensor for tensor in (*self.inputs, *self.weights) if tensor.requires_grad]
        with torch.autocast(self.output.device.type, enabled=False):
            gradients = iter(
                torch.autograd.grad(self.output, asked, self.gradient, allow_unused=True, retain_graph=True)
            )
        self.of_inputs = [next(gradients) if tensor.requires_grad else None for tensor in self.inputs]
        self.of_weights = GradientBuffers(list(gradients))

    def replay_forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """The output for other inputs of the same form."""
        for static, tensor in zip(self.inputs, inputs, strict=True):
            static.detach().copy_(tensor)
        self.forward_pass.replay()
        return self.output.clone()

    def replay_backward(self, gradient: Tensor) -> list[Tensor | None]:
        """The gradients of inputs and of weights side by side that belong to the last forward pass."""
        self.gradient.copy_(gradient)
        self.backward_pass.replay()
        of_inputs = [None if part is None else part.clone() for part in self.of_inputs]
        return [*of_inputs, *(flat.clone() for flat in self.of_weights.flat)]


class GradientBuffers:
    """Gradients side by side, by number format, so that a copy and a sum of them are one each."""

    def __init__(self, gradients: Sequence[Tensor | None]):
        self.used = tuple(part is not None for part in gradients)  # which weights have a part in the output
        parts = [part for part in gradients if part is not None]
        formats = dict.fromkeys(part.dtype for part in parts)
        self.flat = [
            torch.cat([part.flatten() for part in parts if part.dtype == dtype]) for dtype in formats
        ]


class SideBySide(torch.autograd.Function):
    """Weights of one number format as one tensor (n,), which nobody looks into: only its gradient counts.

    All segments of a call share it. So their gradients are added up as one, and weights get theirs once.
    """

    @staticmethod
    def forward(context: Any, *weights: Tensor) -> Tensor:
        context.shapes = [weight.shape for weight in weights]
        return weights[0].new_zeros(()).expand(sum(shape.numel() for shape in context.shapes))

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        parts = gradient.split([shape.numel() for shape in context.shapes])
        return tuple(part.view(shape) for part, shape in zip(parts, context.shapes, strict=True))


class RecordingSlot:
    """Recordings of which one is in use at a time."""

    def __init__(self, pool: Any):
        self.pool, self.recordings = pool, dict[Hashable, Recording]()
        self.holder: weakref.finalize[Any, Any] | None = None

    @property
    def free(self) -> bool:
        return self.holder is None or not self.holder.alive

    def hold(self) -> Tensor:
        """A tensor as long as which lives, the slot is taken."""
        token = torch.empty(0)
        self.holder = weakref.finalize(token, int)  # alive until then; nothing is to be done
        self.holder.atexit = False
        return token

    def keep(self, form: Hashable, recording: Recording) -> None:
        while len(self.recordings) >= KEPT_PER_SLOT:
            del self.recordings[next(iter(self.recordings))]
        self.recordings[form] = recording


class Replayed(torch.autograd.Function):
    """A recorded segment in the graph of autograd: inputs and weights side by side in, output out."""

    @staticmethod
    def forward(context: Any, recording: Recording, token: Tensor, inputs: int, *tensors: Tensor) -> Tensor:
        context.recording = recording
        context.save_for_backward(token)  # let go with the graph, unless it is retained
        return recording.replay_forward(tensors[:inputs])

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        _ = context.saved_tensors  # torch's own error where the graph was not retained
        return None, None, None, *context.recording.replay_backward(gradient)


class HostWaits(Exception):
    """Work that makes the host wait for the device, and so cannot be recorded."""


def done_unsynchronised(work: Callable[[], object], device: torch.device) -> None:
    """Do the work, unless it makes the host wait for the device."""
    with Unsynchronised(device) as watch:
        try:
            work()
        except Exception:  # a script of torch makes others of those that are raised inside
            if watch.refused:
                raise HostWaits(watch.refused) from None
            raise


class Unsynchronised(TorchDispatchMode):
    """Refuses what makes the host wait for a device: a value that is looked at, a copy to elsewhere."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.device, self.refused = device, ""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [tensor for tensor in (*args, *(kwargs or {}).values()) if isinstance(tensor, Tensor)]
        output = function(*args, **(kwargs or {}))
        looked_at = function in LOOKED_AT or (function in INDEXED and chosen_by_mask(args[1]))
        if looked_at and any(tensor.device == self.device for tensor in tensors):
            self.refused = f"{function} makes the host wait for the device"
            raise HostWaits(self.refused)
        moved = [*tensors, output] if function in COPIES else []
        if len({tensor.device.type for tensor in moved}) > 1:
            self.refused = f"{function} copies between devices"
            raise HostWaits(self.refused)
        return output


def chosen_by_mask(indices: Sequence[Tensor | None]) -> bool:
    """Whether an index is a mask, which chooses nobody knows how many."""
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
