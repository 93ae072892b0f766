"""What ends a generation: runs of token ids, named as ids or as texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import torch
from torch import Tensor

from rmt.errors import ConfigError, shown
from rmt.infer.sources import ids_of


def endings(stop: Any, tokenizer: Any, vocabulary: int) -> list[Tensor]:
    """The runs of ids that end generation: of an id, a text, or several of these."""
    runs = []
    for ending in listed(stop):
        if isinstance(ending, str) and tokenizer is None:
            raise ConfigError(f"stop={ending!r} needs a tokenizer; name token ids")
        ids = ids_of(tokenizer, ending) if isinstance(ending, str) else [token_id(ending)]
        require_possible(ending, ids, vocabulary)
        runs.append(torch.tensor(ids))
    return runs


def listed(stop: Any) -> list[Any]:
    """Every ending: of none, one, or several."""
    if stop is None:
        return []
    is_one = isinstance(stop, str) or getattr(stop, "ndim", None) == 0 or not isinstance(stop, Iterable)
    return [stop] if is_one else list(stop)


def token_id(ending: Any) -> int:
    """The integer that an ending is, whichever library made it."""
    try:
        return index(ending)
    except TypeError:
        raise ConfigError(
            f"stop={shown(ending)} is neither a token id nor a text; name one, or several"
        ) from None


def require_possible(ending: Any, ids: Sequence[int], vocabulary: int) -> None:
    """Raise for an ending that no model of such a vocabulary can generate."""
    if not ids:
        raise ConfigError(f"stop={ending!r} has no token; name a text that has")
    if not all(0 <= token < vocabulary for token in ids):
        raise ConfigError(
            f"stop={shown(ending)} is not in the model's vocabulary; name ids of 0 to {vocabulary - 1}"
        )
