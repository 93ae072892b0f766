"""The host may wait for the GPU again behind a test of waiting, however that ended."""

import warnings

import pytest
import torch

from tests.gpus import without_waiting


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The modes that were set, by a torch that warns behind each."""
    modes: list[object] = [0]

    def set_mode(mode: object) -> None:
        modes.append(mode)
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", set_mode)
    return modes


def test_the_mode_is_what_it_was_behind_work_that_did_not_wait(modes: list[object]) -> None:
    with without_waiting():
        assert modes == [0, "error"]
    assert modes == [0, "error", 0]


def test_the_mode_is_what_it_was_behind_work_that_failed(modes: list[object]) -> None:
    with pytest.raises(RuntimeError, match="synchronizing"), without_waiting():
        raise RuntimeError("called a synchronizing CUDA operation")
    assert modes == [0, "error", 0]
