"""Processes that talk through gloo, as torchrun would start them."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.multiprocessing

import rmt
from tests.forks import ForkedCommand

SOURCE = str(Path(rmt.__file__).parents[1])
# a run of text with memory and cache, to be shared among processes
TEXT = {
    "task": {"name": "text", "data": "book.txt", "segment_length": 5, "options": {"occurring": True}},
    "model": {
        "vocabulary": 30,
        "layers": 2,
        "heads": 2,
        "head_width": 4,
        "width": 8,
        "inner_width": 8,
        "memory": {"size": 2},
        "cache": {"size": 3},
    },
    "train": {"batch": 4, "steps": 6, "evaluate_every": 3, "save_every": 2, "log_every": 1},
    "bptt": {"schedule": "sliding", "depth": 1},
}


def variables(rank: int, port: int, count: int) -> dict[str, str]:
    """What torchrun tells a process."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "test",
    }


def in_two_processes(work: Callable[..., None], *arguments: Any) -> None:
    in_processes(2, work, *arguments)


def in_processes(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Call `work(*arguments)` in processes forked from this one; an error in any is an error here."""
    torch.multiprocessing.start_processes(
        enter, (free_port(), count, work, arguments), nprocs=count, start_method="fork"
    )


def enter(rank: int, port: int, count: int, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    from rmt.train.processes import leave

    if count > 1:
        os.environ.update(variables(rank, port, count))
    work(*arguments)
    leave()


def fork_processes(count: int, words: list[str]) -> list[ForkedCommand]:
    """`rmt WORDS` in many processes, forked from this one."""
    port = free_port()
    return [ForkedCommand(words, variables(rank, port, count)) for rank in range(count)]


def start_processes(count: int, arguments: list[str]) -> list[subprocess.Popen[str]]:
    """`rmt ARGUMENTS` in many processes, in a process group that the first leads."""
    port, group, started = free_port(), 0, []
    for rank in range(count):
        environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCE, **variables(rank, port, count)}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "rmt.cli.main", *arguments],
                env={**os.environ, **environment},
                process_group=group,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        group = started[0].pid
    return started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
