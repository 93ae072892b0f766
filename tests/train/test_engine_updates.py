"""Updates of models that are served by their fast layers: those that autograd makes."""

from typing import Any

import pytest
import torch

from rmt.core.serving import Served, served
from rmt.train.config import RunConfig
from rmt.train.trainer import Trainer
from tests.laws.models import assert_same
from tests.train.runs import tiny, trainer_of
from tests.train.seeds import SLIDING, assert_same_trainer, double, stacked, trainers_of, updates_of
from tests.train.texts import MODELS, text, write_corpus

SETTINGS: dict[str, dict[str, Any]] = {
    "relative": {"model": {"positions": "relative"}},
    "rotary": {"model": {"positions": "rotary"}},
    "sliding": {"bptt": SLIDING},
    "sequence-1": {"bptt": {"depth": 1}},
    "accumulated": {"train": {"accumulate": 2}},
    "no-memory": {"model": MODELS["baseline"]},
    "memory-transformer": {"model": MODELS["memory_transformer"]},
    "adaptive": {"model": {"cutoffs": (3, 6)}},
    "narrow-tables": {"model": {"cutoffs": (3, 6), "div_val": 2}},
    "checkpointed": {"bptt": {"checkpoint": True}},
    "memory-loss": {"model": {"memory": {"size": 2, "predicts": True}}, "train": {"memory_loss": 0.1}},
}


def serve(trainer: Trainer, dtype: torch.dtype = torch.float64) -> Trainer:
    """As on a GPU."""
    trainer.updater.served = Served(trainer.model, dtype)
    return trainer


def assert_as_autograd(config: RunConfig, batches: int) -> None:
    plain, fast = trainer_of(config), serve(trainer_of(config))
    for _ in range(batches):
        for mine, theirs in zip(fast.updates(), plain.updates(), strict=True):
            assert_same((mine.loss, mine.norm), (theirs.loss, theirs.norm), tolerance=1e-10)
    assert_same_trainer(fast, plain)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_updates_are_those_of_autograd(settings: dict[str, Any]) -> None:
    assert_as_autograd(double(**settings), batches=5)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_updates_of_wide_models_in_bfloat16_are_nearly_those_of_autograd(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmt.nn.fast.prepared.NARROW", 0)
    config = tiny(precision="bf16-mixed", **settings)
    plain, fast = trainer_of(config), serve(trainer_of(config), torch.bfloat16)
    for _ in range(3):
        for mine, theirs in zip(fast.updates(), plain.updates(), strict=True):
            assert_same(mine.loss, theirs.loss, tolerance=0.03)


def test_updates_of_text_are_those_of_autograd(tmp_path) -> None:
    data = write_corpus(tmp_path)
    assert_as_autograd(text(data, precision="64-true", model={"cutoffs": (2, 5)}, bptt=SLIDING), batches=6)


@pytest.mark.parametrize("name", ["relative", "rotary", "adaptive", "no-memory"])
def test_updates_of_stacked_seeds_are_those_of_each_alone(name: str) -> None:
    config = double(**SETTINGS[name])
    alone, together = trainers_of(config), [serve(trainer) for trainer in trainers_of(config)]
    with stacked(together) as updater:
        assert updater.served is not None
        for _ in range(5):
            for update, trainer in zip(updates_of(together, updater), alone, strict=True):
                (expected,) = trainer.updates()
                assert_same((update.loss, update.norm), (expected.loss, expected.norm), tolerance=1e-10)
    for mine, theirs in zip(together, alone, strict=True):
        assert_same_trainer(mine, theirs)
        list(mine.updates()), list(theirs.updates())  # alone again
        assert_same_trainer(mine, theirs)


def test_what_its_layers_cannot_do_is_left_to_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmt.core.serving.KERNELS", True)
    monkeypatch.setattr("rmt.core.serving.has_bfloat16", lambda: True)

    def known(half: bool = True, **model: Any) -> bool:
        return served(trainer_of(tiny(model=model)).model, half) is not None

    assert known()
    assert not known(half=False)
    assert not known(norm="post")
    assert not known(dropout=0.1)
    assert not known(head_width=256)
    assert not known(**MODELS["transformer_xl_rmt"])
    frozen = trainer_of(tiny()).model
    frozen.embedding.requires_grad_(False)  # then nothing would tell the layers to differentiate
    assert served(frozen, half=True) is None
    assert served(frozen, half=True, learns=False) is not None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("positions", ["relative", "rotary"])
def test_recorded_updates_on_a_gpu_are_the_plain_ones_to_their_rounding(positions: str) -> None:
    settings: dict[str, Any] = {
        "task": {"segments": 3},
        "model": {"positions": positions, "layers": 2},
        "optimizer": {"name": "adamw"},
        "precision": "bf16-mixed",
        "device": "cuda",
    }
    fast, plain = (trainer_of(tiny(compile=way, **settings)) for way in ("record", "off"))
    assert fast.updater.served is not None
    assert plain.updater.served is None
    for _ in range(6):
        for mine, theirs in zip(fast.updates(), plain.updates(), strict=True):
            torch.testing.assert_close(mine.loss, theirs.loss, rtol=1e-2, atol=1e-2)
            torch.testing.assert_close(mine.norm, theirs.norm, rtol=5e-2, atol=1e-2)
    assert fast.updater.recorder.recordings
