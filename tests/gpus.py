"""GPUs that are not there, with bfloat16 and without; and one that is, on which the host must not wait."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

NO_GPU = ""
MULTIPLIES = {"NVIDIA H200": True, "Tesla T4": False, NO_GPU: False}


def pretend(monkeypatch: pytest.MonkeyPatch, card: str) -> None:
    """Let torch say that there is this card, or none."""

    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return bool(card) and (including_emulation or MULTIPLIES[card])

    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(card))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_bf16_supported)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: card)


@contextmanager
def without_waiting() -> Iterator[None]:
    """While this is open, an error where the host waits for the GPU; not afterwards, whatever happened."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
        try:
            torch.cuda.set_sync_debug_mode("error")
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
