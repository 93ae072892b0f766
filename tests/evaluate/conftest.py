"""Predictions are compared token by token, so they are made where rounding decides nothing."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
