"""Run by itself: the shared memory that fused layers take, compiled for an H200, which needs no GPU.

Prints bytes by kernel. It is a process of its own, since Triton compiles or interprets, but not both.
"""

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from rmt import MemoryConfig, ModelConfig, SegmentModel
from rmt.gpu import naive
from rmt.gpu.engine import Engine
from rmt.gpu.kernels import fused_layer as kernels

HOPPER = GPUTarget("cuda", 90, 32)
MEMORY = 4
TOKENS = 4


class Driver:
    """Stands in for a card."""

    def get_current_target(self) -> GPUTarget:
        return HOPPER

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Compiled:
    """Stands in for a kernel: it is compiled when it is launched, and nothing runs."""

    def __init__(self, name: str, taken: dict[str, int]):
        self.name, self.taken, self.kernel = name, taken, getattr(kernels, name)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **settings: Any) -> None:
            compiled = self.kernel.warmup(*arguments, grid=grid, **settings)
            self.taken[self.name] = max(self.taken.get(self.name, 0), compiled.metadata.shared)

        return launch


def shared_memory(dtype: torch.dtype, width: int, inner: int, rows: int) -> dict[str, int]:
    """What the kernels of a segment take whose layers are narrow enough to be fused."""
    taken: dict[str, int] = {}
    for name in ("fused_layer_kernel", "fused_layer_gradient_kernel"):
        setattr(kernels, name, Compiled(name, taken))
    names = ("fused_layer", "fused_layer_gradient", "MAX_FUSED_BYTES")
    operations = SimpleNamespace(**{**vars(naive), **{name: getattr(kernels, name) for name in names}})
    sizes = {"layers": 2, "heads": 4, "head_width": 32, "width": width, "inner_width": inner}
    model = SegmentModel(ModelConfig(vocabulary=12, memory=MemoryConfig(size=MEMORY), **sizes))
    engine = Engine(model, dtype, operations=operations)  # type: ignore[arg-type]
    assert engine.weights.is_fused
    tokens = torch.zeros(rows // (TOKENS + 2 * MEMORY), TOKENS, dtype=torch.long)
    engine.begin()
    output = engine.model(tokens, model.initial_state(len(tokens)), targets=tokens)
    output.losses.sum().backward()  # of memory that nobody wrote to
    return taken


if __name__ == "__main__":
    driver.set_active(Driver())
    dtype, *sizes = sys.argv[1:]
    print(json.dumps(shared_memory(getattr(torch, dtype), *map(int, sizes))))
