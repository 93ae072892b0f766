"""Kernels run on the GPU, or, where there is none, in Triton's interpreter."""

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton, which is for Linux only")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter asks again while it runs."""
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")
