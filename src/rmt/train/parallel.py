"""Many processes with one device each: the model replicated or sharded, started by torchrun or srun.

Every process draws the whole batch and works on its own rows. Losses are divided by counts over all
processes, so gradients are summed, never averaged.
"""

from __future__ import annotations

import atexit
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from lightning_fabric.strategies import DDPStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from rmt.core.model import SegmentModel
from rmt.errors import ConfigError
from rmt.precision import AskedPrecision, precision_of


class Processes(DDPStrategy):
    """Fabric's process group without DDP's wrapper, which fails where a forward pass is recomputed."""

    def setup_module(self, module: nn.Module) -> nn.Module:  # type: ignore[override]
        return module


def world_size() -> int:
    """How many processes torchrun or srun started."""
    return int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_STEP_NUM_TASKS") or 1)


def is_first() -> bool:
    """Whether this is the process that writes files and prints."""
    return world_size() == 1 or int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0) == 0


def launch(device: str, asked: AskedPrecision, batch: int, accumulate: int) -> Fabric:
    """A Fabric of all processes, if a batch can be shared among them."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # the run folder has it all
    world = world_size()
    if batch % (world * accumulate):
        raise ConfigError(
            f"train.batch={batch} does not share among {world} processes; use a multiple of "
            f"{world * accumulate} (processes · train.accumulate)"
        )
    precision = precision_of("auto", device) if asked == "auto" else asked
    if world == 1:  # also inside a Slurm allocation
        return Fabric(accelerator=device, devices=1, precision=precision, plugins=[LightningEnvironment()])
    on_this_node = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("SLURM_NTASKS_PER_NODE") or world)
    fabric = Fabric(
        accelerator=device,
        strategy=Processes(),
        devices=on_this_node,
        num_nodes=world // on_this_node,
        precision=precision,
    )
    fabric.launch()
    atexit.register(shut)  # Fabric does this for NCCL only
    return fabric


def shut() -> None:
    """Leave the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def shard(model: SegmentModel, fabric: Fabric) -> None:
    """Spread parameters, gradients and optimizer states over the processes (FSDP2), in place."""
    if fabric.world_size == 1:
        raise ConfigError("strategy=fsdp needs more than one process; start with torchrun, or leave it out")
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # of views, which nobody writes to
    mesh = init_device_mesh(fabric.device.type, (fabric.world_size,))
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
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def sum_gradients(parameters: list[Tensor]) -> None:
    """Add up the gradients of all processes in one message; FSDP has done so in its backward pass."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not dist.is_initialized() or any(isinstance(gradient, DTensor) for gradient in gradients):
        return
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    parts = flat.split([gradient.numel() for gradient in gradients])
    views = [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]
    torch._foreach_copy_(gradients, views)


def whole(tensor: Tensor) -> Tensor:
    """The full tensor of a shard, on every process; all have to call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's shard of a full tensor that every process has, as `like` is sharded."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
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
