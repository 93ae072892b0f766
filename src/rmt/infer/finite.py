"""NaN checks that do not synchronise: flags on the device, raised when read."""

# B batch · w tokens

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from rmt.core.state import State
from rmt.core.tree import tree_items
from rmt.errors import DataError

CHECKED = ("hidden states", "memory", "log-probabilities")  # what each of a session's flags is about


def flags(device: torch.device) -> Tensor:
    """Flags of a session that has seen numbers only, (3,) bool."""
    return torch.ones(len(CHECKED), dtype=torch.bool, device=device)


def finite(device: torch.device, hidden: Tensor | None, state: State | None, losses: Tensor | None) -> Tensor:
    """Whether each of what is checked has numbers only, (3,) bool; what is not there, has."""
    carried = () if state is None else (tensor for _, tensor in tree_items(state.carried))
    parts = ((hidden,), carried, (losses,))
    return torch.stack([all_finite(device, part) for part in parts])


def all_finite(device: torch.device, tensors: Iterable[Tensor | None]) -> Tensor:
    """Whether all tensors have numbers only, ()."""
    result = torch.ones((), dtype=torch.bool, device=device)
    for tensor in tensors:
        if tensor is not None and tensor.is_floating_point() and tensor.numel():
            result = result & torch.linalg.vector_norm(tensor, math.inf).isfinite()  # one pass over it
    return result


def require_flags(flags: Tensor) -> None:
    """Refuse to go on with what was not a number; waits for the device."""
    for what, is_finite in zip(CHECKED, flags.tolist(), strict=True):
        if not is_finite:
            raise damaged(what)


def require_finite(tensor: Tensor, what: str) -> None:
    """Refuse what is not a number, before it is handed out; waits for the device."""
    if not bool(tensor.isfinite().all()):
        raise damaged(what)


def damaged(what: str) -> DataError:
    return DataError(
        f"the model's {what} have NaN or inf: its weights (embedding, memory) or the state are damaged, "
        "or too large for its number format; load an undamaged checkpoint"
    )
