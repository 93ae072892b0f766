"""Updates by the engine: those that autograd makes, alone, stacked, recorded and resumed."""

from typing import Any

import pytest
import torch

from rmt.gpu.engine import Engine
from rmt.train.config import RunConfig
from rmt.train.snapshots import restore, snapshot
from rmt.train.trainer import Trainer, Update
from tests.covering import quick
from tests.laws.models import assert_same
from tests.train.runs import tiny, trainer_of
from tests.train.seeds import SLIDING, assert_same_trainer, double, stacked, trainers_of, updates_of
from tests.train.texts import MODELS, text, write_corpus

SETTINGS: dict[str, dict[str, Any]] = {
    "relative": {"model": {"positions": "relative"}},
    "rotary": {"model": {"positions": "rotary"}},
    "post-norm": {"model": {"norm": "post", "layers": 2}},
    "sliding": {"bptt": SLIDING},
    "sequence-1": {"bptt": {"depth": 1}},
    "accumulated": {"train": {"accumulate": 2}},
    "row-by-row": {"train": {"accumulate": 4}, "model": MODELS["transformer_xl_rmt"]},
    "no-memory": {"model": MODELS["baseline"]},
    "memory-transformer": {"model": MODELS["memory_transformer"]},
    "cache": {"model": {**MODELS["transformer_xl"], "layers": 2}},
    "cache-and-memory": {"model": {**MODELS["transformer_xl_rmt"], "layers": 2}, "bptt": SLIDING},
    "cache-of-all": {
        "model": {"memory": {"size": 2, "sees_cache": True}, "cache": {"size": 5, "scope": "all"}},
    },
    "adaptive": {"model": {"cutoffs": (3, 6)}},
    "gained": {"model": {"output": "gained"}},
    "gained-adaptive": {"model": {"output": "gained", "cutoffs": (3, 6)}},
    "gained-narrow-tables": {"model": {"output": "gained", "cutoffs": (3, 6), "div_val": 2}},
    "narrow-tables": {"model": {"cutoffs": (3, 6), "div_val": 2}},
    "more-words-than-tokens": {"model": {"vocabulary": 900, "output": "gained", "cutoffs": (3, 200)}},
    "memory-loss": {"model": {"memory": {"size": 2, "predicts": True}}, "train": {"memory_loss": 0.1}},
    "adaptive-memory-loss": {
        "model": {"memory": {"size": 2, "predicts": True}, "cutoffs": (3, 6)},
        "train": {"memory_loss": 0.1},
    },
}
RECOMPUTED: dict[str, dict[str, Any]] = {
    "checkpointed-words": {"bptt": {"checkpoint": True}, "model": {"vocabulary": 900}},
    "checkpointed": {"bptt": {"checkpoint": True}},
    "checkpointed-cache": {
        "bptt": {"checkpoint": True},
        "model": {**MODELS["transformer_xl_rmt"], "layers": 2},
    },
}
FEW = (
    "rotary",
    "post-norm",
    "accumulated",
    "cache-and-memory",
    "gained-narrow-tables",
    "adaptive-memory-loss",
)
DROPPING = {"dropout": 0.3, "layers": 2}


def serve(trainer: Trainer, dtype: torch.dtype = torch.float64) -> Trainer:
    """As on a GPU."""
    recompute = trainer.config.bptt.checkpoint
    trainer.updater.engine = Engine(trainer.model, dtype, recompute=recompute)
    return trainer


def assert_as_autograd(config: RunConfig, batches: int) -> None:
    plain, fast = trainer_of(config), serve(trainer_of(config))
    for _ in range(batches):
        for mine, theirs in zip(fast.updates(), plain.updates(), strict=True):
            assert_same((mine.loss, mine.norm), (theirs.loss, theirs.norm), tolerance=1e-10)
    assert_same_trainer(fast, plain)


@pytest.mark.parametrize("settings", (SETTINGS | RECOMPUTED).values(), ids=SETTINGS | RECOMPUTED)
def test_updates_are_those_of_autograd(settings: dict[str, Any]) -> None:
    assert_as_autograd(double(**settings), batches=3)


@pytest.mark.parametrize("settings", quick(SETTINGS, *FEW))
def test_updates_of_wide_models_in_bfloat16_are_nearly_those_of_autograd(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmt.gpu.parameters.MAX_FLOAT32_SPAN", 0)
    config = tiny(precision="bf16-mixed", **settings)
    plain, fast = trainer_of(config), serve(trainer_of(config), torch.bfloat16)
    for _ in range(3):
        for mine, theirs in zip(fast.updates(), plain.updates(), strict=True):
            assert_same(mine.loss, theirs.loss, tolerance=0.03)


@pytest.mark.parametrize("name", ["adaptive", "narrow-tables", "adaptive-memory-loss"])
def test_updates_with_a_slot_for_every_position_are_those_that_count_their_targets(name: str) -> None:
    config = double(**SETTINGS[name])
    counting, fixed = (serve(trainer_of(config)) for _ in range(2))
    fixed.slots = fixed.feed.capacities(config.model.cutoffs)  # as on a GPU, where shapes are recorded
    for _ in range(4):
        for mine, theirs in zip(fixed.updates(), counting.updates(), strict=True):
            assert_same((mine.loss, mine.norm), (theirs.loss, theirs.norm), tolerance=1e-10)
    assert fixed.overflowed == 0
    assert_same_trainer(fixed, counting)


def test_updates_of_text_are_those_of_autograd(tmp_path) -> None:
    data = write_corpus(tmp_path)
    assert_as_autograd(text(data, precision="64-true", model={"cutoffs": (2, 5)}, bptt=SLIDING), batches=6)


def test_updates_of_text_with_a_cache_and_resets_are_those_of_autograd(tmp_path) -> None:
    data = write_corpus(tmp_path)
    settings = {"model": MODELS["transformer_xl_rmt"], "task": {"reset": "document"}}
    assert_as_autograd(text(data, precision="64-true", bptt=SLIDING, **settings), batches=8)


def assert_as_each_alone(updates: list[Update], alone: list[Trainer]) -> None:
    """Updates of all seeds, step by step, are those that each makes of its next item of the feed."""
    steps = zip(*(trainer.updates() for trainer in alone), strict=True)
    expected = [update for step in steps for update in step]
    for mine, theirs in zip(updates, expected, strict=True):
        assert_same((mine.loss, mine.norm), (theirs.loss, theirs.norm), tolerance=1e-10)


@pytest.mark.parametrize("settings", quick(SETTINGS, *FEW))
def test_updates_of_stacked_seeds_are_those_of_each_alone(settings: dict[str, Any]) -> None:
    config = double(**settings)
    alone, together = trainers_of(config), [serve(trainer) for trainer in trainers_of(config)]
    with stacked(together) as updater:
        assert updater.engine is not None
        for _ in range(3):
            assert_as_each_alone(updates_of(together, updater), alone)
    for mine, theirs in zip(together, alone, strict=True):
        assert_same_trainer(mine, theirs)
        list(mine.updates()), list(theirs.updates())  # alone again
        assert_same_trainer(mine, theirs)


@pytest.mark.covering
@pytest.mark.parametrize("positions", ["relative", "rotary"])
@pytest.mark.parametrize("model", ["rmt", "transformer_xl_rmt"])
def test_dropout_of_stacked_seeds_is_that_of_each_alone(model: str, positions: str) -> None:
    config = double(model={**MODELS[model], **DROPPING, "positions": positions})
    alone, together = ([serve(trainer) for trainer in trainers_of(config)] for _ in range(2))
    with stacked(together) as updater:
        for _ in range(4):
            assert_as_each_alone(updates_of(together, updater), alone)
    for mine, theirs in zip(together, alone, strict=True):
        assert_same_trainer(mine, theirs)


@pytest.mark.parametrize("model", ["rmt", "transformer_xl_rmt"])
def test_recomputed_segments_with_dropout_are_those_that_were_kept(model: str) -> None:
    settings = {**MODELS[model], **DROPPING}
    kept, recomputed = (
        serve(trainer_of(double(model=settings, bptt={"checkpoint": checkpoint})))
        for checkpoint in (False, True)
    )
    for _ in range(4):
        for mine, theirs in zip(recomputed.updates(), kept.updates(), strict=True):
            assert_same((mine.loss, mine.norm), (theirs.loss, theirs.norm), tolerance=1e-10)
    assert_same_trainer(recomputed, kept)


def test_dropout_does_not_ask_a_generator() -> None:
    config = double(model=DROPPING)
    trainers = [serve(trainer_of(config)) for _ in range(2)]
    weights = []
    for seed, trainer in enumerate(trainers):
        for _ in range(3):
            torch.manual_seed(seed)
            list(trainer.updates())
        weights.append(torch.cat([parameter.flatten() for parameter in trainer.model.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.covering
@pytest.mark.parametrize("stop", [1, 3])
@pytest.mark.parametrize(
    "bptt", [{}, SLIDING, {"checkpoint": True}], ids=["sequence", "sliding", "checkpointed"]
)
def test_a_run_that_is_resumed_has_the_masks_of_an_uninterrupted_one(bptt: dict[str, Any], stop: int) -> None:
    config = double(model={**MODELS["transformer_xl_rmt"], **DROPPING}, bptt=bptt)
    whole, stopped, resumed = (serve(trainer_of(config)) for _ in range(3))
    for _ in range(4):
        list(whole.updates())
    for _ in range(stop):
        list(stopped.updates())
    restore(resumed, snapshot(stopped))
    for _ in range(4 - stop):
        list(resumed.updates())
    saved, expected = snapshot(resumed), snapshot(whole)
    for part in ("model", "optimizer"):
        for name, tensor in getattr(expected, part).items():
            assert torch.equal(getattr(saved, part)[name], tensor), name


def test_an_update_that_is_made_again_has_the_same_masks_and_the_next_has_others() -> None:
    config = double(model=DROPPING)
    first, again = serve(trainer_of(config)), serve(trainer_of(config))
    assert torch.equal(first.dropout_keys(first.step), again.dropout_keys(again.step))
    before = first.dropout_keys(first.step)
    list(first.updates())
    assert not torch.equal(first.dropout_keys(first.step), before)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_accumulated_rows_and_all_rows_at_once_have_equal_gradients_without_dropout(checkpoint: bool) -> None:
    norms = []
    for accumulate in (1, 2):
        bptt = {"checkpoint": checkpoint}
        trainer = serve(trainer_of(double(train={"accumulate": accumulate}, bptt=bptt)))
        norms.append(torch.stack([update.norm for _ in range(3) for update in trainer.updates()]))
    assert_same(*norms, tolerance=1e-10)


def test_a_cpu_is_not_served_and_needs_no_reason() -> None:
    updater = trainer_of(tiny()).updater
    assert updater.engine is None
    assert updater.reason_not_served == ""


GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),
]
ON_GPU = pytest.mark.parametrize(
    "settings",
    [
        pytest.param((SETTINGS | RECOMPUTED)[name], id=name, marks=GPU)
        for name in (
            "relative",
            "rotary",
            "post-norm",
            "cache-and-memory",
            "adaptive",
            "more-words-than-tokens",
            "checkpointed-cache",
        )
    ],
)


def on_gpu(way: str, settings: dict[str, Any]) -> Trainer:
    fixed = {"task": {"segments": 3}, "optimizer": {"name": "adamw"}, "precision": "bf16-mixed"}
    return trainer_of(tiny(compile=way, device="cuda", **{**fixed, **settings}))


@ON_GPU
def test_recorded_updates_on_a_gpu_are_the_plain_ones_to_their_rounding(settings: dict[str, Any]) -> None:
    fast, plain = (on_gpu(way, settings) for way in ("auto", "off"))
    assert fast.updater.engine is not None
    assert plain.updater.engine is None
    for _ in range(6):
        for mine, theirs in zip(fast.updates(), plain.updates(), strict=True):
            torch.testing.assert_close(mine.loss, theirs.loss, rtol=1e-2, atol=1e-2)
            torch.testing.assert_close(mine.norm, theirs.norm, rtol=5e-2, atol=1e-2)
    assert fast.updater.recorder.recordings


@ON_GPU
def test_recorded_updates_with_dropout_are_those_that_are_not_recorded(settings: dict[str, Any]) -> None:
    dropping = {**settings, "model": {**settings.get("model", {}), **DROPPING}}
    recorded, eager = (on_gpu("auto", dropping) for _ in range(2))
    eager.updater.recorder.enabled = False
    losses = []
    for trainer in (recorded, eager):
        losses.append(torch.stack([update.loss for _ in range(6) for update in trainer.updates()]))
    assert bool(recorded.updater.recorder.recordings)
    assert not eager.updater.recorder.recordings
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)  # another mask would be seen


def test_the_state_behind_segments_without_a_loss_is_in_the_form_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cache in the engine has the number format of its layers; checkpoints and recordings the run's."""
    monkeypatch.setattr("rmt.gpu.parameters.MAX_FLOAT32_SPAN", 0)
    trainer = trainer_of(tiny(model=MODELS["transformer_xl_rmt"], precision="bf16-mixed"))
    updater = trainer.updater
    updater.engine = Engine(trainer.model, torch.bfloat16)
    item = trainer.feed.item(0)
    state = updater.state_behind(item.segments[:2], item.incoming[0], trainer.dropout_keys(0))
    assert [tensor.dtype for tensor in state.flat()] == [tensor.dtype for tensor in updater.form.flat()]
