"""Run by itself: every kernel of an update compiled for a card, which needs no GPU.

Takes the settings of a model, a number format, the sizes of a segment and ten times the card's compute
capability as JSON; prints the shared memory of each kernel, in bytes. It is a process of its own, since
Triton compiles or interprets, but not both.
"""

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import torch
from triton import JITFunction
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from rmt import CacheConfig, MemoryConfig, ModelConfig, SegmentModel
from rmt.gpu import kernels
from rmt.gpu.engine import Engine
from rmt.gpu.kernels import operations, products

HOPPER = 90


class Driver:
    """Stands in for a card."""

    def __init__(self, capability: int):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Compiled:
    """Stands in for a kernel: it is compiled when it is launched, and nothing runs."""

    def __init__(self, name: str, kernel: JITFunction, taken: dict[str, int]):
        self.name, self.kernel, self.taken = name, kernel, taken

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **settings: Any) -> None:
            compiled = self.kernel.warmup(*arguments, grid=grid, **settings)
            self.taken[self.name] = max(self.taken.get(self.name, 0), compiled.metadata.shared)

        return launch


def kernels_in(module: ModuleType) -> Iterator[tuple[str, JITFunction]]:
    """What is launched in a module, by name."""
    for name, kernel in list(vars(module).items()):
        if isinstance(kernel, JITFunction) and name.endswith("_kernel"):
            yield name, kernel


def shared_memory(
    model: dict[str, Any], dtype: str, batch: int, tokens: int, capability: int
) -> dict[str, int]:
    """What the kernels of one update take whose segments have so many rows and tokens."""
    taken: dict[str, int] = {}
    for found in iter_modules(kernels.__path__, f"{kernels.__name__}."):
        module = import_module(found.name)
        for name, kernel in kernels_in(module):
            setattr(module, name, Compiled(name, kernel, taken))
    products.moves_tiles = lambda x: (
        x.element_size() == 2 and capability >= HOPPER
    )  # as on the card that is compiled for
    memory, cache = MemoryConfig(**model.pop("memory", {})), CacheConfig(**model.pop("cache", {}))
    built = SegmentModel(ModelConfig(vocabulary=12, memory=memory, cache=cache, **model))
    engine = Engine(built, getattr(torch, dtype), operations=operations)
    ids, state = torch.zeros(batch, tokens, dtype=torch.long), built.initial_state(batch)
    engine.begin()
    for _ in range(2):
        output = engine.model(ids, state, targets=ids)
        state = output.state
    output.losses.sum().backward()  # of memory that nobody wrote to
    engine.deliver()
    return taken


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    driver.set_active(Driver(settings["capability"]))
    print(json.dumps(shared_memory(**settings)))
