"""A model on many processes, replicated or sharded.

Every process draws the whole batch and works on its own rows. Losses are divided by counts over all
processes, so gradients are summed, never averaged.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rmt.core.model import SegmentModel
from rmt.errors import ConfigError
from rmt.train.processes import Processes

if TYPE_CHECKING:  # they take a second to load: `shard` does, and a shard is known by its methods
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

ALIGNED = 64  # elements between the beginnings of gradients: vector loads want 16 bytes, and this is enough


def shard(model: SegmentModel, processes: Processes) -> None:
    """Spread parameters, gradients and optimizer states over the processes (FSDP2), in place."""
    if processes.world_size == 1:
        raise ConfigError("strategy=fsdp needs more than one process; start with torchrun, or leave it out")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # of views, which nobody writes to
    mesh = init_device_mesh(processes.device.type, (processes.world_size,))
    for parameter in model.memory.parameters():
        parameter.requires_grad_(parameter.numel() > 0)  # nothing cannot be sharded
    for layer in model.backbone.layers:
        fully_shard(layer, mesh=mesh)
        register_fsdp_forward_method(layer, "remember")
    fully_shard(model, mesh=mesh)
    for module in shards(model):
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)  # Gloo has no scaled sum


def shards(model: nn.Module) -> list[FSDPModule]:
    """The modules that are sharded."""
    return [module for module in model.modules() if is_sharded(module)]


def is_sharded(module: nn.Module) -> TypeGuard[FSDPModule]:
    return hasattr(module, "unshard")


def is_shard(tensor: Tensor) -> TypeGuard[DTensor]:
    return hasattr(tensor, "full_tensor")


class SharedGradients:
    """The gradients of all parameters in a row, which processes add up in one message.

    They stay where they are: what makes them and what uses them can be recorded, each by itself.
    """

    def __init__(self, parameters: list[Tensor]):
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        sizes = [parameter.numel() + -parameter.numel() % ALIGNED for parameter in self.parameters]
        self.flat = self.parameters[0].new_zeros(sum(sizes))
        self.views = [
            part[: parameter.numel()].view_as(parameter)
            for part, parameter in zip(self.flat.split(sizes), self.parameters, strict=True)
        ]

    def begin(self) -> None:
        """Gradients of zero."""
        self.flat.zero_()
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.grad = view

    def sum(self) -> None:
        """Add up those of all processes."""
        dist.all_reduce(self.flat)


def gather_full(tensor: Tensor) -> Tensor:
    """The full tensor of a shard, on every process; all have to call it."""
    return tensor.full_tensor() if is_shard(tensor) else tensor


def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's shard of a full tensor that every process has, as `like` is sharded."""
    if not is_shard(like) or tensor.shape != like.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """While this is open, a sharded model is a plain one: every method works, without messages."""
    modules = shards(model)
    for module in modules:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in modules:
            module.set_reshard_after_forward(module is not model, recurse=False)
            module.reshard()


def rows_of_all(rows: Tensor) -> Tensor:
    """The rows (B, …) of all processes, one process's behind the other's."""
    if not dist.is_initialized():
        return rows
    rows = rows.contiguous()
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows)
    return torch.cat(parts)
