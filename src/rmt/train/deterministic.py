"""The same bits in every run on a GPU: where torch has several ways to add, it takes one in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rmt.errors import ConfigError

# the engine's kernels for weight gradients add to memory from many blocks at once, in any order
REASON_NOT_SERVED = "deterministic=True, its kernels add in any order"
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
FIXED_WORKSPACE = ":4096:8"  # eight buffers of 4 MB: with those, cuBLAS promises the same bits
FIXED_WORKSPACES = (FIXED_WORKSPACE, ":16:8")


@contextmanager
def deterministic(is_asked: bool, device: str) -> Iterator[None]:
    """While this is open, torch computes the same bits every time, if that is asked for; then as before.

    cuBLAS looks for its variable when CUDA starts, so it stays set.
    """
    if not is_asked:
        yield
        return
    if device == "cuda":
        fix_workspace()
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def fix_workspace() -> None:
    """Let cuBLAS have workspaces with which it computes the same bits."""
    value = os.environ.get(WORKSPACE)
    if value in FIXED_WORKSPACES:
        return
    if value is not None or torch.cuda.is_initialized():
        cause = "CUDA has started without it" if value is None else f"it is {value!r}"
        raise ConfigError(
            f"deterministic=True needs {WORKSPACE}={FIXED_WORKSPACE} in the environment, and {cause}; "
            "set it before the program starts"
        )
    os.environ[WORKSPACE] = FIXED_WORKSPACE
