"""The processes of a run, one device each, as torchrun or srun starts them, and their messages."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from rmt.errors import ConfigError, RMTError
from rmt.precision import MIXED, AskedPrecision, Precision, precision_of

Value = TypeVar("Value")
Module = TypeVar("Module", bound=nn.Module)
PATIENCE = timedelta(minutes=30)  # of processes that wait for the first to test the model
DEFAULT_PORT, SLURM_PORTS = 12910, 15000  # with Slurm, and the last four digits of the job's number


class ProcessLost(RMTError):
    """Another process of the run ended, or answers no more."""

    exit_code = 1


class Processes:
    """All processes of a run: the device and the precision of this one, and its messages to the others."""

    def __init__(self, device: torch.device, precision: Precision):
        self.device, self.precision = device, precision
        self.world_size, self.global_rank = world_size(), global_rank()

    def setup_module(self, module: Module) -> Module:
        """The module on the device, its weights as precise as a run keeps them."""
        return (module.double() if self.precision == "64-true" else module).to(self.device)

    def to_device(self, tensors: Value) -> Value:
        """A named tuple of tensors on the device, without waiting for it."""
        return tree_map_only(Tensor, lambda tensor: tensor.to(self.device, non_blocking=True), tensors)

    def autocast(self) -> AbstractContextManager[Any]:
        """While this is open, products are computed in bfloat16 if the precision is mixed."""
        if self.precision == MIXED:
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor)
        return tensor

    def largest(self, number: int) -> int:
        """The largest of the numbers of all processes."""
        if self.world_size == 1:
            return number
        message = torch.tensor(number, device=self.device)
        dist.all_reduce(message, dist.ReduceOp.MAX)
        return int(message)

    def broadcast(self, value: Value) -> Value:
        """What the first process has, on every process."""
        if self.world_size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.world_size > 1:
            dist.barrier(device_ids=None if self.device.type == "cpu" else [self.device.index])


def launch(device: str, asked: AskedPrecision, batch: int, accumulate: int) -> Processes:
    """This process among all of the run, if a batch can be shared among them."""
    world = world_size()
    if batch % (world * accumulate):
        raise ConfigError(
            f"train.batch={batch} does not share among {world} processes; use a multiple of "
            f"{world * accumulate} (processes · train.accumulate)"
        )
    mine = device_of_process(device)
    if world > 1:
        join(mine)
    return Processes(mine, precision_of("auto", mine) if asked == "auto" else asked)


@contextmanager
def all_needed() -> Iterator[None]:
    """While this is open, a message that another process does not answer ends this one with a line."""
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise ProcessLost(
            f"process {global_rank()} of {world_size()} lost another one ({reason_lost(str(error))}), whose "
            "own message says why; the same command goes on from the last checkpoint"
        ) from None


def reason_lost(message: str) -> str:
    """What gloo or the network says, without its source file and its advice."""
    first_sentence = message.splitlines()[0].split(". ")[0]
    return re.sub(r"^\[[^]]*\] ?", "", first_sentence).strip(" .")


def world_size() -> int:
    """How many processes torchrun or srun started."""
    return number_of("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", default=1)


def global_rank() -> int:
    """Which of all processes this is."""
    return number_of("RANK", "SLURM_PROCID") if world_size() > 1 else 0


def local_rank() -> int:
    """Which of the processes on this machine this is: the number of its GPU."""
    return number_of("LOCAL_RANK", "SLURM_LOCALID", "RANK") if world_size() > 1 else 0


def is_first() -> bool:
    """Whether this is the process that writes files and prints."""
    return global_rank() == 0


def number_of(*names: str, default: int = 0) -> int:
    """The first of the environment's variables that is there."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name)), default)


def device_of_process(name: str) -> torch.device:
    """The CPU, or the GPU of this process, which is the current one from now on."""
    if name != "cuda":
        return torch.device(name)
    number, count = local_rank(), torch.cuda.device_count()
    if number >= count:
        raise ConfigError(
            f"process {number} of this machine has no GPU of its own: it sees {count}; start no more than "
            f"there are GPUs, and let each process see all of them (srun --gpu-bind=none)"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def join(device: torch.device) -> None:
    """Enter the process group, once; it is left at exit."""
    if dist.is_initialized():
        return
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_NODELIST") or "127.0.0.1"
    os.environ.setdefault("MASTER_ADDR", first_machine(nodes))
    os.environ.setdefault("MASTER_PORT", str(port_of(os.environ.get("SLURM_JOB_ID", ""))))
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        rank=global_rank(),
        world_size=world_size(),
        timeout=PATIENCE,
        device_id=device if device.type == "cuda" else None,
    )
    atexit.register(leave)


def leave() -> None:
    """Leave the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def first_machine(nodes: str) -> str:
    """The first of Slurm's list of machines: `host05` of `host[05-09,12]`, of `host05,host06`."""
    return re.split("[ ,]", re.sub(r"\[(\w+)[^]]*\]", r"\1", nodes))[0]


def port_of(job: str) -> int:
    """The port that the first process of a Slurm job listens at."""
    return SLURM_PORTS + int(job[-4:]) if job else DEFAULT_PORT
