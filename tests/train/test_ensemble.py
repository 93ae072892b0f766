"""Seeds trained at once: each is what it would have been alone."""

# K seeds

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rmt.errors import ConfigError
from rmt.experiments.run import train, train_seeds
from rmt.tasks.task import Batch
from rmt.train import learner
from rmt.train.config import RunConfig
from rmt.train.ensemble import Ensemble
from rmt.train.learner import Request
from rmt.train.loop import Diverged, Loop
from rmt.train.snapshots import snapshot
from rmt.train.stack import Stack, ages, read_each
from rmt.train.trainer import Trainer, Update
from tests.laws.models import assert_same
from tests.train.runs import Echo, Unplugged, Watcher, metrics, tiny, trainer_of
from tests.train.texts import MODELS, text, write_corpus

SEEDS = 3
SLIDING = {"schedule": "sliding", "depth": 1}
PRESETS = pytest.mark.parametrize("model", ["rmt", "transformer_xl_rmt"])


@dataclass(frozen=True, kw_only=True)
class Wandering(Echo):
    """Some batches, others for every seed, have no loss in their second segment."""

    def fresh(self, count: int, number: int, seed: int) -> Batch:
        batch = super().fresh(count, number, seed)
        second = torch.arange(batch.loss_mask.shape[1]) // 2 == 1
        return batch._replace(loss_mask=batch.loss_mask & ~(second & ((number + seed) % 3 > 0)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@PRESETS
def test_fifty_updates_of_documents_with_muon_are_those_of_each_seed_alone(model):
    config = double(
        task={"segments": 3},
        model={**MODELS[model], "layers": 2},
        optimizer={"clip": 0.9, "weight_decay": 0.1},
    )
    clipped = assert_as_alone(config, batches=50) > 0.9
    assert (clipped.any(1) & ~clipped.all(1)).any()  # in some seeds only, at one step


@PRESETS
def test_fifty_updates_of_text_with_adamw_are_those_of_each_seed_alone(data, model):
    optimizer = {"name": "adamw", "weight_decay": 0.1, "clip": 0.9}
    config = text(data, precision="64-true", model=MODELS[model], bptt=SLIDING, optimizer=optimizer)
    clipped = assert_as_alone(config, batches=50) > 0.9
    assert (clipped.any(1) & ~clipped.all(1)).any()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"bptt": {"depth": 1}}, id="sequence-1"),
        pytest.param({"bptt": SLIDING}, id="sliding"),
        pytest.param({"bptt": {"schedule": "chunked", "depth": 1}}, id="chunked"),
        pytest.param({"train": {"accumulate": 2}}, id="accumulated"),
        pytest.param({"optimizer": {"name": "adam", "clip": 0.0}}, id="adam-unclipped"),
        pytest.param({"rate": {"schedule": "cosine", "warmup": 3}}, id="rates"),
        pytest.param({"model": {"positions": "rotary", "norm": "post"}}, id="rotary"),
        pytest.param({"model": MODELS["baseline"]}, id="no-memory"),
        pytest.param({"model": MODELS["memory_transformer"]}, id="memory-transformer"),
        pytest.param({"model": {"cutoffs": (3, 6)}}, id="adaptive"),
        pytest.param(
            {
                "model": {"memory": {"size": 2, "predicts": True}, "cutoffs": (3, 6)},
                "train": {"memory_loss": 0.1},
            },
            id="memory-loss",
        ),
    ],
)
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


@pytest.mark.filterwarnings("ignore")  # compiling warns of its own ways
def test_a_compiled_reading_is_one_graph_and_changes_nothing():
    config = double(task={"segments": 2})
    alone, together = trainers_of(config), trainers_of(config)
    with stacked(together) as stack:
        stack.reading = torch.compile(read_each, dynamic=False, fullgraph=True, backend="eager")
        made = updates_of(together, stack)
    for update, trainer in zip(made, alone, strict=True):
        (expected,) = trainer.updates()
        assert_same((update.loss, update.norm), (expected.loss, expected.norm), tolerance=1e-10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore")
@PRESETS
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_recorded_updates_of_seeds_are_those_of_each_alone(model, optimizer):
    settings = {"model": {**MODELS[model], "layers": 2}, "optimizer": {"name": optimizer}, "device": "cuda"}
    alone = trainers_of(double(compile="off", **settings))
    together = trainers_of(double(compile="auto", **settings))
    with stacked(together) as stack:
        for _ in range(5):
            for update, trainer in zip(updates_of(together, stack), alone, strict=True):
                (expected,) = trainer.updates()
                tolerance = 1e-8 if optimizer == "adamw" else 1e-2  # Muon is in bfloat16 there
                torch.testing.assert_close(update.loss, expected.loss, rtol=tolerance, atol=tolerance)
                torch.testing.assert_close(update.norm, expected.norm, rtol=10 * tolerance, atol=tolerance)
        assert stack.update.recordings


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
    with stacked(trainers) as stack:
        updates_of(trainers, stack)
        assert all(parameter.grad is None for parameter in stack.parameters.values())


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


def test_whole_runs_leave_the_folders_of_single_runs(tmp_path):
    config = double()
    results = train_seeds(config, tmp_path / "together", watchers())
    for seed, result in enumerate(results):
        expected, _ = train(replace(config, seed=seed), tmp_path / f"alone-{seed}", Watcher())
        mine, theirs = tmp_path / "together" / f"seed-{seed}", tmp_path / f"alone-{seed}"
        assert (mine / "config.yaml").read_text() == (theirs / "config.yaml").read_text()
        assert files(mine) == files(theirs)
        assert_same_numbers(metrics(mine), metrics(theirs))
        assert_same_numbers([result["metrics"]], [expected["metrics"]])
        assert (result["seed"], result["steps"], result["samples"]) == (seed, 12, expected["samples"])


def test_a_seed_that_reaches_its_target_leaves_and_the_others_go_on_as_if_alone(tmp_path, monkeypatch):
    config, kept = double(train={"steps": 16, "target": 0.9}), keep_loops(monkeypatch)
    reach(monkeypatch, {0: 12, 1: 4})
    train_seeds(config, tmp_path / "together", watchers())
    assert [loop.trainer.step for loop in kept] == [12, 4, 16]
    for loop, alone in zip(kept, trainers_of(config), strict=True):
        while alone.step < loop.trainer.step:
            list(alone.updates())
        assert_same_trainer(loop.trainer, alone)


@pytest.mark.parametrize("bptt", [{}, SLIDING], ids=["sequence", "sliding"])
def test_a_stopped_ensemble_ends_with_the_weights_of_an_uninterrupted_one(tmp_path, monkeypatch, bptt):
    config, kept = double(bptt=bptt, train={"steps": 20}), keep_loops(monkeypatch)
    train_seeds(config, tmp_path / "whole", watchers())
    for stop in (5, 9):
        with pytest.raises(Unplugged):  # after the first seed has saved, before the second has
            train_seeds(config, tmp_path / "stopped", [Watcher(), Watcher(stop), Watcher()])
    again = watchers()
    train_seeds(config, tmp_path / "stopped", again)
    starts = [watcher.messages[0] for watcher in again]
    assert len(set(starts)) > 1
    for mine, theirs in zip(kept[-SEEDS:], kept[:SEEDS], strict=True):
        assert_same_trainer(mine.trainer, theirs.trainer, tolerance=1e-12)
        assert_same_numbers(metrics(mine.folder), metrics(theirs.folder))


def test_a_member_is_resumed_alone_and_a_single_run_becomes_a_member(tmp_path, monkeypatch):
    config, kept = double(), keep_loops(monkeypatch)
    with pytest.raises(Unplugged):
        train_seeds(config, tmp_path / "seeds", [Watcher(), Watcher(), Watcher(stop=6)])
    watcher = Watcher()
    train(replace(config, seed=1), tmp_path / "seeds" / "seed-1", watcher)  # alone to its end
    assert watcher.messages == ["resuming at step 6"]
    with pytest.raises(Unplugged):
        train(replace(config, seed=2), tmp_path / "seeds" / "seed-2", Watcher(stop=8))
    del kept[:]
    results = train_seeds(config, tmp_path / "seeds", watchers())
    assert [result["seed"] for result in results] == [0, 1, 2]
    assert [loop.config.seed for loop in kept] == [0, 2]
    for loop in kept:
        alone = trainer_of(loop.config)
        while alone.step < 12:
            list(alone.updates())
        assert_same_trainer(loop.trainer, alone)


@pytest.mark.parametrize("bptt", [{"depth": 1}, SLIDING], ids=["sequence", "sliding"])
def test_seeds_whose_losses_are_elsewhere_are_still_what_they_are_alone(tmp_path, monkeypatch, bptt):
    """They differ in the kind of an update, in their steps per batch, and in what memory has learned from."""
    task = {"name": "tests.train.test_ensemble:Wandering"}
    config, kept = double(task=task, bptt=bptt, train={"steps": 15}), keep_loops(monkeypatch)
    train_seeds(config, tmp_path, watchers())
    for loop in kept:
        alone = Loop(loop.config, tmp_path / "alone" / loop.folder.name, Watcher())
        alone.folder.mkdir(parents=True)
        (alone.folder / "config.yaml").write_text((loop.folder / "config.yaml").read_text())
        alone.run()
        assert_same_trainer(loop.trainer, alone.trainer)
    if bptt == SLIDING:
        assert len({str(ages(loop.trainer)) for loop in kept}) > 1


def test_a_seed_that_diverges_leaves_and_is_told_when_the_others_are_done(tmp_path, monkeypatch):
    real = learner.score

    def spoiled(*inputs: Any) -> Any:
        found = real(*inputs)
        bad = torch.tensor([1.0, torch.nan, 1.0], dtype=torch.float64)
        return found._replace(loss=found.loss * bad) if found.loss.dim() and len(found.loss) == 3 else found

    monkeypatch.setattr(learner, "score", spoiled)
    with pytest.raises(Diverged, match=r"loss=nan at step 1: .*seed-1"):
        train_seeds(double(), tmp_path, watchers())
    assert [(tmp_path / f"seed-{seed}" / "result.json").exists() for seed in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": {"schedule": "plateau"}}, r"rate\.schedule=plateau does not go with many seeds"),
        ({"curriculum": {"over": "length"}}, r"curriculum\.over=length does not go with many seeds"),
        ({"bptt": {"checkpoint": True}}, r"bptt\.checkpoint=True does not go with many seeds"),
        ({"strategy": "fsdp"}, r"strategy=fsdp does not go with many seeds"),
        ({"seed": 2**32 - 2}, r"seed=4294967296 must be 0 to"),
    ],
    ids=["plateau", "curriculum", "checkpoint", "fsdp", "seed"],
)
def test_what_cannot_be_stacked_is_refused_and_leaves_no_folder(tmp_path, settings, words):
    with pytest.raises(ConfigError, match=words):
        train_seeds(tiny(**settings), tmp_path / "run", watchers())
    assert not (tmp_path / "run").exists()


def test_many_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"by one process, not by 2; leave torchrun"):
        train_seeds(tiny(), tmp_path / "run", watchers())


def test_the_folder_of_a_single_run_is_refused(tmp_path):
    train(tiny(train={"steps": 1}), tmp_path, Watcher())
    with pytest.raises(ConfigError, match="holds a single run; name another --out"):
        train_seeds(tiny(train={"steps": 1}), tmp_path, watchers())


def double(**groups: Any) -> RunConfig:
    return tiny(precision="64-true", **groups)


def watchers() -> list[Watcher]:
    return [Watcher() for _ in range(SEEDS)]


def trainers_of(config: RunConfig) -> list[Trainer]:
    """A trainer for each seed."""
    return [trainer_of(replace(config, seed=seed)) for seed in range(SEEDS)]


@contextmanager
def stacked(trainers: list[Trainer]) -> Iterator[Stack]:
    stack = Stack(trainers)
    yield stack
    stack.release()


def updates_of(trainers: list[Trainer], stack: Stack) -> list[Update]:
    """The updates from the next piece of data, those of all seeds at one step in a row."""
    made: list[Update] = []
    for portions in zip(*(trainer.portions() for trainer in trainers), strict=True):
        pairs = zip(trainers, portions, strict=True)
        learning = [trainer.learn(portion) for trainer, portion in pairs]
        requests = [first(one) for one in learning]
        if not isinstance(requests[0], Request):
            continue  # there was nothing to learn
        for one, answer in zip(learning, stack.answer(requests), strict=True):
            with pytest.raises(StopIteration) as end:
                one.send(answer)
            made += end.value.value
    return made


def first(learning: Any) -> Request | None:
    return next(learning, None)


def updates_together(trainers: list[Trainer]) -> list[Update]:
    with stacked(trainers) as stack:
        return updates_of(trainers, stack)


def assert_as_alone(config: RunConfig, batches: int) -> Tensor:
    """Losses, norms, weights and optimizer states of K seeds at once; returns the norms, (updates, K)."""
    alone, together = trainers_of(config), trainers_of(config)
    norms = []
    with stacked(together) as stack:
        for _ in range(batches):
            made = updates_of(together, stack)
            expected = [list(trainer.updates()) for trainer in alone]
            for place, one in enumerate(made):
                twin = expected[place % SEEDS][place // SEEDS]
                assert (int(one.correct), one.counted) == (int(twin.correct), twin.counted)
                assert_same((one.loss, one.norm), (twin.loss, twin.norm), tolerance=1e-8)
            assert len(made) == sum(map(len, expected))
            norms += [one.norm for one in made]
        for mine, theirs in zip(together, alone, strict=True):
            assert_same_trainer(mine, theirs)
    return torch.stack(norms).view(-1, SEEDS)


def assert_same_trainer(mine: Trainer, theirs: Trainer, tolerance: float = 1e-8) -> None:
    """What a checkpoint would have of them."""
    saved, expected = snapshot(mine), snapshot(theirs)
    for part in ("model", "optimizer"):
        found, wanted = getattr(saved, part), getattr(expected, part)
        assert found.keys() == wanted.keys()
        assert wanted
        assert_same([found[name] for name in wanted], list(wanted.values()), tolerance=tolerance)
    assert mine.step == theirs.step


def assert_same_numbers(mine: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> None:
    assert len(mine) == len(theirs)
    for one, two in zip(mine, theirs, strict=True):
        assert one.keys() == two.keys()
        for name, value in two.items():
            assert one[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-8)), name


def keep_loops(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Fills with the loops of every ensemble."""
    kept: list[Any] = []
    real = Ensemble.__init__
    monkeypatch.setattr(Ensemble, "__init__", lambda self, loops: kept.extend(loops) or real(self, loops))
    return kept


def reach(monkeypatch: pytest.MonkeyPatch, steps: dict[int, int]) -> None:
    """Let seeds reach their target at a step."""
    real = Loop.evaluate

    def evaluate(self: Any) -> bool:
        best = real(self)
        self.trainer.reached = self.trainer.step == steps.get(self.config.seed)
        return best

    monkeypatch.setattr(Loop, "evaluate", evaluate)


def files(run: Path) -> set[str]:
    """Names of what a run wrote."""
    return {str(path.relative_to(run)) for path in run.rglob("*")}
