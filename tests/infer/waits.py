"""How often somebody waits for what tensors hold, as on a GPU it would be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from torch import Tensor

WAITS = (
    "item",
    "tolist",
    "numpy",
    "cpu",
    "nonzero",
    "masked_select",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
)


def count_waits(patch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each method of tensors was called that waits for what they hold."""
    counts: Counter[str] = Counter()

    def counting(name: str, method: Any) -> Any:
        def counted(self: Tensor, *args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return method(self, *args, **kwargs)

        return counted

    for name in WAITS:
        patch.setattr(Tensor, name, counting(name, getattr(Tensor, name)))
    return counts
