"""Machines that are not there: with a GPU that multiplies in bfloat16, with another, and with none."""

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
