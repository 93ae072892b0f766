"""Machines that are not there: with a GPU that multiplies in bfloat16, and with one that does not."""

import pytest
import torch

MULTIPLIES = {"NVIDIA H200": True, "Tesla T4": False}


def pretend(monkeypatch: pytest.MonkeyPatch, card: str) -> None:
    """Let torch say that there is this card."""

    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return including_emulation or MULTIPLIES[card]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_bf16_supported)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: card)
