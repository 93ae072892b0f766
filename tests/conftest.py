"""Naive twins are compared to rounding, so they run where rounding is small."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# models are built in float64 there
EXACT = {
    "laws",
    "nn",
    "evaluate",
    "infer",
    "analysis",
    "test_bptt.py",
    "test_original_loop.py",
    "test_truncated.py",
}


@pytest.fixture(autouse=True)
def float64(request: pytest.FixtureRequest) -> Iterator[None]:
    """Float64 as the default where a law is tested."""
    exact = EXACT & set(Path(request.node.path).relative_to(Path(__file__).parent).parts)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if exact else before)
    yield
    torch.set_default_dtype(before)
