"""Recording a training step: when it is done, and that it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rmt.experiments.recipe import resolve
from rmt.train import capture
from rmt.train.capture import Recorder
from rmt.train.loop import build_task
from rmt.train.trainer import Trainer


class Recording:
    """Stands in for a CUDA graph: refuses inputs of another shape, as a graph's memory does."""

    def __init__(self, work: Any, model: nn.Module, kind: object, *inputs: Tensor):
        self.work, self.kind, self.shapes = work, kind, [tensor.shape for tensor in inputs]

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        assert [tensor.shape for tensor in inputs] == self.shapes
        return ("replayed", self.kind, *inputs)  # type: ignore[return-value]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(capture, "Captured", Recording)
    return Recorder(lambda kind, *inputs: ("worked", kind, *inputs), nn.Linear(1, 1), enabled=True)


def how(recorder: Recorder, kind: str, *shape: int) -> str:
    return str(recorder(kind, torch.zeros(shape))[0])


def test_the_second_call_of_a_kind_in_a_row_is_recorded(recorder: Recorder) -> None:
    assert [how(recorder, "a", 2, 3) for _ in range(3)] == ["worked", "replayed", "replayed"]


def test_another_kind_is_not_taken_for_the_recorded_one(recorder: Recorder) -> None:
    assert [how(recorder, kind, 2, 3) for kind in "aabb"] == ["worked", "replayed", "worked", "replayed"]


def test_another_shape_of_the_same_kind_is_not_taken_for_the_recorded_one(recorder: Recorder) -> None:
    calls = [how(recorder, "a", 2, tokens) for tokens in (6, 6, 8, 8, 6)]
    assert calls == ["worked", "replayed", "worked", "replayed", "worked"]


def test_a_recorder_that_is_off_always_works() -> None:
    recorder = Recorder(lambda kind, *inputs: ("worked", kind, *inputs), nn.Linear(1, 1), enabled=False)
    assert [how(recorder, "a", 2, 3) for _ in range(3)] == ["worked"] * 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_recorded_update_equals_a_plain_one() -> None:
    """Weights after a few updates, compiled and captured against as written."""
    weights = {}
    for compile in ("off", "auto"):
        config = resolve({"task": {"name": "copy", "length": 4}, "device": "cuda", "compile": compile})
        trainer = Trainer(config, build_task(config.task))
        for _ in range(4):
            list(trainer.updates())
        weights[compile] = trainer.model.state_dict()
    for name, tensor in weights["off"].items():
        torch.testing.assert_close(weights["auto"][name], tensor, rtol=1e-3, atol=1e-4)
