"""Recorded updates: for whom they are, and that recording changes nothing."""

import pytest
import torch

from rmt.errors import ConfigError
from rmt.experiments.recipe import resolve
from rmt.gpu.graphs import Recorder
from rmt.train.loop import build_task
from rmt.train.parallel import SharedGradients
from rmt.train.trainer import Trainer


def test_recording_only_is_for_a_gpu() -> None:
    config = resolve({"task": {"name": "copy", "length": 4}, "device": "cpu", "compile": "record"})
    with pytest.raises(ConfigError, match="compile=record has no effect on a CPU"):
        Trainer(config, build_task(config.task))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", ["rmt", "transformer_xl_rmt"])
@pytest.mark.parametrize(  # Muon makes directions orthogonal in bfloat16
    ("precision", "optimizer", "accumulate", "tolerance"),
    [("64-true", "adamw", 1, 1e-9), ("64-true", "adam", 2, 1e-9), ("32-true", "muon", 1, 1e-2)],
)
def test_recorded_updates_equal_plain_ones(
    preset: str, precision: str, optimizer: str, accumulate: int, tolerance: float
) -> None:
    """Losses and weights of a few updates, recorded against as written; 32-true is the engine's, in TF32."""
    found = {}
    for compile in ("off", "auto"):
        settings = {
            "task": {"name": "copy", "length": 4},
            "preset": preset,
            "precision": precision,
            "optimizer": {"name": optimizer},
            "train": {"accumulate": accumulate},
            "device": "cuda",
            "compile": compile,
        }
        config = resolve(settings)
        trainer = Trainer(config, build_task(config.task))
        losses = [update.loss for _ in range(5) for update in trainer.updates()]
        assert bool(trainer.updater.recorder.recordings) == (compile == "auto")
        found[compile] = [torch.stack(losses), *trainer.model.state_dict().values()]
    for plain, fast in zip(found["off"], found["auto"], strict=True):
        torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("way", "served", "recorded"), [("auto", True, True), ("record", False, True), ("off", False, False)]
)
def test_compile_says_whether_the_engine_runs_and_whether_it_is_recorded(
    way: str, served: bool, recorded: bool
) -> None:
    settings = {"task": {"name": "copy", "length": 4}, "precision": "bf16-mixed", "device": "cuda"}
    config = resolve({**settings, "compile": way})
    trainer = Trainer(config, build_task(config.task))
    for _ in range(3):
        list(trainer.updates())
    assert (trainer.updater.engine is not None) == served
    assert trainer.updater.reason_not_served == ("" if served else f"compile={way}")
    assert bool(trainer.updater.recorder.recordings) == recorded


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.filterwarnings("ignore")])],
)
def test_gradients_that_processes_share_make_the_same_updates(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes by name, of which the other adds nothing; collecting and applying are recorded apart."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    settings = {"task": {"name": "copy", "length": 4}, "optimizer": {"name": "adamw"}, "device": device}
    config = resolve(settings)
    weights = []
    for several in (False, True):
        trainer = Trainer(config, build_task(config.task))
        updater = trainer.updater
        if several:
            updater.shared = SharedGradients(list(updater.parameters.values()))
            monkeypatch.setattr(updater.shared, "sum", lambda: None)
            former = updater.recorder
            updater.recorder = Recorder(updater.collect, former.enabled, former.device)
        for _ in range(5):
            list(trainer.updates())
        assert bool(updater.recorder.recordings) == (device == "cuda")
        assert bool(updater.apply_recorder.recordings) == (device == "cuda" and several)
        weights.append(list(trainer.model.state_dict().values()))
    torch.testing.assert_close(*weights, rtol=0, atol=0)
