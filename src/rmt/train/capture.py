"""Forward and backward of an update as one CUDA graph: the same kernels, launched at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

Work = Callable[..., tuple[Tensor, ...]]


class Captured:
    """A function of tensors that leaves gradients in a model's parameters, recorded once and replayed.

    Its inputs are copied to where the recording reads them; its outputs and gradients are overwritten by
    the next call.
    """

    def __init__(self, work: Work, model: nn.Module, kind: Hashable, *inputs: Tensor):
        self.inputs = tuple(tensor.clone() for tensor in inputs)
        self.parameters = list(model.parameters())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                model.zero_grad()
                work(kind, *self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        model.zero_grad()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = work(kind, *self.inputs)
        self.gradients = [parameter.grad for parameter in self.parameters]

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        for place, tensor in zip(self.inputs, inputs, strict=True):
            place.copy_(tensor, non_blocking=True)
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        return tuple(output.clone() for output in self.outputs)


class Recorder:
    """Calls `work(kind, *inputs)`, and records it when the same call comes a second time in a row.

    Two calls are the same if their `kind` and the shapes of their inputs are: then the work is, too.
    """

    def __init__(self, work: Work, model: nn.Module, enabled: bool):
        self.work, self.model, self.enabled = work, model, enabled
        self.last: Hashable = None
        self.captured: Captured | None = None

    def __call__(self, kind: Hashable, *inputs: Tensor) -> tuple[Tensor, ...]:
        call = (kind, *(tensor.shape for tensor in inputs))
        if not self.enabled or call != self.last:
            self.last, self.captured = call, None
            return self.work(kind, *inputs)
        if self.captured is None:
            self.captured = Captured(self.work, self.model, kind, *inputs)
        return self.captured(*inputs)
