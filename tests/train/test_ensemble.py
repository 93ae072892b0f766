"""Updates of seeds at once: each is what it would have been alone."""

from pathlib import Path

import pytest
import torch

from tests.covering import quick
from tests.laws.models import assert_same
from tests.train.runs import tiny, trainer_of
from tests.train.seeds import (
    SEEDS,
    SLIDING,
    assert_as_alone,
    assert_same_trainer,
    double,
    stacked,
    trainers_of,
    updates_of,
    updates_together,
)
from tests.train.texts import MODELS, text, write_corpus

SETTINGS = {
    "sequence-1": {"bptt": {"depth": 1}},
    "sliding": {"bptt": SLIDING},
    "chunked": {"bptt": {"schedule": "chunked", "depth": 1}},
    "accumulated": {"train": {"accumulate": 2}},
    "adam-unclipped": {"optimizer": {"name": "adam", "clip": 0.0}},
    "rates": {"rate": {"schedule": "cosine", "warmup": 3}},
    "rotary": {"model": {"positions": "rotary", "norm": "post"}},
    "no-memory": {"model": MODELS["baseline"]},
    "memory-transformer": {"model": MODELS["memory_transformer"]},
    "adaptive": {"model": {"cutoffs": (3, 6)}},
    "memory-loss": {
        "model": {"memory": {"size": 2, "predicts": True}, "cutoffs": (3, 6)},
        "train": {"memory_loss": 0.1},
    },
}
PRESETS = pytest.mark.parametrize("model", ["rmt", "transformer_xl_rmt"])
MOSTLY_MEMORY = pytest.mark.parametrize(
    "model", ["rmt", pytest.param("transformer_xl_rmt", marks=pytest.mark.slow)]
)
MOSTLY_CACHE = pytest.mark.parametrize(
    "model", [pytest.param("rmt", marks=pytest.mark.slow), "transformer_xl_rmt"]
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.slow
@MOSTLY_MEMORY
def test_fifty_updates_of_documents_with_muon_are_those_of_each_seed_alone(model):
    config = double(
        task={"segments": 3},
        model={**MODELS[model], "layers": 2},
        optimizer={"clip": 0.9, "weight_decay": 0.1},
    )
    clipped = assert_as_alone(config, batches=50) > 0.9
    assert (clipped.any(1) & ~clipped.all(1)).any()  # in some seeds only, at one step


@pytest.mark.slow
@MOSTLY_CACHE
def test_fifty_updates_of_text_with_adamw_are_those_of_each_seed_alone(data, model):
    optimizer = {"name": "adamw", "weight_decay": 0.1, "clip": 0.9}
    config = text(data, precision="64-true", model=MODELS[model], bptt=SLIDING, optimizer=optimizer)
    clipped = assert_as_alone(config, batches=50) > 0.9
    assert (clipped.any(1) & ~clipped.all(1)).any()


@pytest.mark.parametrize("settings", quick(SETTINGS, "sliding", "accumulated", "no-memory", "memory-loss"))
def test_updates_of_every_kind_are_those_of_each_seed_alone(settings):
    assert_as_alone(double(**settings), batches=6)


def test_adaptive_softmax_with_capacities_or_with_too_few_of_them_is_that_of_each_seed_alone(data):
    config = text(data, precision="64-true", model={"cutoffs": (2, 5)}, bptt=SLIDING)
    rows = config.train.batch * config.task.segment_length
    for slots in ((rows, rows), (7, 4)):
        alone, together = trainers_of(config), trainers_of(config)
        for trainer in together:
            trainer.slots = slots
        for _ in range(8):
            made = updates_together(together)
            for update, trainer in zip(made, alone, strict=True):
                (expected,) = trainer.updates()
                assert_same((update.loss, update.norm), (expected.loss, expected.norm), tolerance=1e-10)
    assert 0 < together[0].overflowed < 8


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore")
@PRESETS
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_recorded_updates_of_seeds_are_those_of_each_alone(model, optimizer):
    settings = {"model": {**MODELS[model], "layers": 2}, "optimizer": {"name": optimizer}, "device": "cuda"}
    alone = trainers_of(double(compile="off", **settings))
    together = trainers_of(double(compile="auto", **settings))
    with stacked(together) as updater:
        for _ in range(5):
            for update, trainer in zip(updates_of(together, updater), alone, strict=True):
                (expected,) = trainer.updates()
                tolerance = 1e-8 if optimizer == "adamw" else 1e-2  # Muon is in bfloat16 there
                torch.testing.assert_close(update.loss, expected.loss, rtol=tolerance, atol=tolerance)
                torch.testing.assert_close(update.norm, expected.norm, rtol=10 * tolerance, atol=tolerance)
        assert updater.recorder.recordings


def test_mixed_precision_is_that_of_each_seed_alone_to_its_rounding():
    alone, together = trainers_of(tiny(precision="bf16-mixed")), trainers_of(tiny(precision="bf16-mixed"))
    for _ in range(3):
        for update, trainer in zip(updates_together(together), alone, strict=True):
            (expected,) = trainer.updates()
            assert update.loss.dtype == expected.loss.dtype == torch.float32
            assert float(update.loss) == pytest.approx(float(expected.loss), rel=0.01)
            assert float(update.norm) == pytest.approx(float(expected.norm), rel=0.05)


def test_dropout_is_drawn_anew_for_every_seed():
    config = double(model={"dropout": 0.5})
    trainers = [trainer_of(config) for _ in range(SEEDS)]  # of one seed
    losses = [float(update.loss) for update in updates_together(trainers)]
    assert len(set(losses)) == SEEDS
    assert all(parameter.isfinite().all() for one in trainers for parameter in one.model.parameters())


def test_no_gradient_is_left_behind_for_the_next_update():
    trainers = trainers_of(double())
    with stacked(trainers) as updater:
        updates_of(trainers, updater)
        assert all(parameter.grad is None for parameter in updater.parameters.values())


def test_a_trainer_that_is_released_goes_on_alone():
    alone, together = trainers_of(double()), trainers_of(double())
    for _ in range(2):  # together, then each by itself, and again
        updates_together(together)
        for trainer in together:
            list(trainer.updates())
    for trainer in alone:
        for _ in range(4):
            list(trainer.updates())
    for mine, theirs in zip(together, alone, strict=True):
        assert_same_trainer(mine, theirs)
