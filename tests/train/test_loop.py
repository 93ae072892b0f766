"""A run from its first step to result.json."""

import json
import math
from collections.abc import Callable

import pytest
import torch

import rmt
from rmt.train import loop, objective
from rmt.train.checkpoint import Checkpoints
from rmt.train.curriculum import Curriculum
from rmt.train.loop import Diverged
from rmt.train.measure import Measurement
from rmt.train.trainer import Trainer
from tests.covering import quick
from tests.train.runs import SCHEDULES, TINY, Unplugged, metrics, run, tiny, weights
from tests.train.texts import MODELS

CONTRACT = (
    "task",
    "model",
    "recipe",
    "metric",
    "value",
    "split",
    "seed",
    "steps",
    "seconds",
    "samples",
    "config",
    "environment",
)
LOSSES = 4  # segments of a tiny sequence that have a loss


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_makes_exactly_as_many_updates_as_it_was_given(tmp_path, schedule):
    result, _ = run(tiny(bptt=SCHEDULES[schedule], train={"steps": 7}), tmp_path)
    assert result["steps"] == 7
    assert metrics(tmp_path)[-1]["step"] == 7
    assert Checkpoints(tmp_path).steps()[0] == 7


@pytest.mark.parametrize("bptt", quick(SCHEDULES, "chunked"))
def test_the_loss_falls_on_a_problem_that_can_be_learned(tmp_path, bptt):
    config = tiny(
        bptt=bptt,
        task={"length": 2, "segments": 3, "options": {"symbols": 2}},
        train={"steps": 120, "batch": 16, "evaluate_every": 120, "save_every": 120, "log_every": 20},
        model={"vocabulary": 4, "width": 16, "head_width": 16},
    )
    run(config, tmp_path)
    losses = [record["loss"] for record in metrics(tmp_path) if "train_accuracy" in record]
    assert len(losses) == 6
    assert losses[-1] < 0.4 * losses[0]


def test_a_result_has_everything_that_the_contract_names(tmp_path):
    result, _ = run(tiny(seed=3), tmp_path)
    written = json.loads((tmp_path / "result.json").read_text())
    assert set(CONTRACT) <= set(written)
    assert written == json.loads(json.dumps(result))
    assert written["task"] == "echo"
    assert written["model"] == "rmt"
    assert written["split"] == "test"
    assert written["seed"] == written["config"]["seed"] == 3
    assert written["samples"] == 12 * 4
    assert written["metric"] == "accuracy"
    assert written["value"] == written["metrics"]["accuracy"]
    assert written["metrics"]["samples"] == 12
    assert set(written["environment"]) >= {"commit", "python", "torch", "device", "threads"}


def test_a_result_says_how_long_a_user_waited_for_the_first_update(tmp_path, monkeypatch):
    ages = iter([7.25])
    monkeypatch.setattr(loop, "process_seconds", lambda: next(ages))
    result, _ = run(tiny(), tmp_path)
    assert result["first_update_seconds"] == 7.25


def test_the_result_is_measured_with_the_best_checkpoint(tmp_path, monkeypatch):
    values = iter([0.2, 0.5, 0.1])
    judge(monkeypatch, lambda split: next(values) if split == "valid" else 0.0)
    measured = []
    monkeypatch.setattr(loop, "load", lambda folder: measured.append(rmt.load(folder)) or measured[0])
    run(tiny(), tmp_path)
    assert Checkpoints(tmp_path).named("best") == "step_8"
    assert same(measured[0].state_dict(), weights(tmp_path, 8))
    assert not same(measured[0].state_dict(), weights(tmp_path, 12))


def test_a_run_stops_at_the_evaluation_that_reaches_the_target(tmp_path, monkeypatch):
    values = iter([0.2, 0.9])
    judge(monkeypatch, lambda split: next(values) if split == "valid" else 0.0)
    result, _ = run(tiny(train={"target": 0.9}), tmp_path)
    assert result["steps"] == 8
    assert Checkpoints(tmp_path).named("last") == Checkpoints(tmp_path).named("best") == "step_8"


def test_a_run_that_reached_its_target_before_it_was_killed_trains_no_further(tmp_path, monkeypatch):
    judge(monkeypatch, lambda split: 0.9)
    config = tiny(train={"target": 0.9})
    run(config, tmp_path)
    (tmp_path / "result.json").unlink()
    result, _ = run(config, tmp_path)
    assert result["steps"] == 4
    assert result["first_update_seconds"] is None


def test_a_target_reached_before_the_curriculum_is_through_does_not_stop_a_resumed_run(tmp_path, monkeypatch):
    judge(monkeypatch, lambda split: 0.9)
    config = tiny(train={"target": 0.9}, curriculum={"over": "length", "promote_at": 1.0})
    run(config, tmp_path, stop=10)
    result, _ = run(config, tmp_path)
    assert result["steps"] == 12


@pytest.mark.parametrize("stop", [3, 7], ids=["resumed-before", "resumed-behind"])
def test_rates_fall_from_where_a_curriculum_is_through_also_in_a_resumed_run(tmp_path, monkeypatch, stop):
    promoted = step_of_trainer(monkeypatch)
    monkeypatch.setattr(Curriculum, "trained", lambda self, accuracy: promote(self, promoted() == 5))
    config = tiny(
        train={"steps": 10, "log_every": 1, "save_every": 1},
        rate={"schedule": "linear", "warmup": 2},
        curriculum={"over": "length", "promote_at": 1.0, "growth": 9.0},
    )
    run(config, tmp_path, stop=stop)
    run(config, tmp_path)
    rates = [line["rate"] for line in metrics(tmp_path) if "rate" in line]
    assert rates == pytest.approx([0.5, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2])


def test_the_whole_task_is_trained_from_its_share_of_the_steps_on_however_seldom_a_line_is_logged(tmp_path):
    curriculum = {"over": "length", "promote_at": 1.0, "until": 0.5}
    seldom = dict.fromkeys(("log_every", "evaluate_every", "save_every"), 12)
    _, watcher = run(tiny(train=seldom, curriculum=curriculum), tmp_path)
    assert "promoted to stage 2 at step 6" in watcher.messages
    assert [line["stage"] for line in metrics(tmp_path) if "stage" in line] == [2]


@pytest.mark.parametrize("model", ["baseline", "memory_transformer"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_models_that_carry_no_memory_learn_from_sequences(tmp_path, schedule, model):
    bptt = {"schedule": schedule, "depth": "full"} if schedule == "sequence" else SCHEDULES[schedule]
    result, _ = run(tiny(model=TINY["model"] | MODELS[model], bptt=bptt), tmp_path)
    assert result["steps"] == 12


def promote(curriculum: Curriculum, earned: bool) -> bool:
    """On to the whole task, if that is earned."""
    curriculum.number += earned
    return earned


def test_divergence_names_the_step_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    run(tiny(train={"steps": 4}), tmp_path / "whole")
    spoil(monkeypatch, update=5, how=lambda loss: loss * math.nan)
    with pytest.raises(Diverged, match=r"loss=nan at step 5: .*; lower optimizer\.lr") as caught:
        run(tiny(), tmp_path / "spoiled")
    assert caught.value.exit_code == 1
    assert Checkpoints(tmp_path / "spoiled").steps()[0] == 4
    assert same(weights(tmp_path / "spoiled", 4), weights(tmp_path / "whole", 4))


def test_a_gradient_that_is_no_number_is_divergence_before_it_is_saved(tmp_path, monkeypatch):
    def poison(loss: torch.Tensor) -> torch.Tensor:
        loss = loss * 1.0
        loss.register_hook(lambda gradient: gradient * math.nan)
        return loss

    spoil(monkeypatch, update=6, how=poison)
    with pytest.raises(Diverged, match="at step 6"):
        run(tiny(), tmp_path)
    saved = rmt.load(tmp_path).state_dict().values()
    assert all(tensor.isfinite().all() for tensor in saved)


def test_a_kill_between_a_checkpoint_and_the_word_that_it_is_the_best_changes_nothing(tmp_path, monkeypatch):
    scores = {4: 0.2, 8: 0.5, 12: 0.1}
    step = step_of_trainer(monkeypatch)
    judge(monkeypatch, lambda split: scores[step()] if split == "valid" else 0.0)
    point = Checkpoints.point

    def killed(self: Checkpoints, pointer: str, name: str) -> None:
        if (pointer, name) == ("best", "step_8"):
            raise Unplugged
        point(self, pointer, name)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "point", killed)
        run(tiny(), tmp_path)
    assert Checkpoints(tmp_path).named("best") == "step_4"
    run(tiny(), tmp_path)
    assert Checkpoints(tmp_path).named("best") == "step_8"


def test_a_run_whose_checkpoints_are_all_damaged_says_so_and_starts_anew(tmp_path):
    whole, _ = run(tiny(), tmp_path / "whole")
    run(tiny(), tmp_path / "damaged", stop=8)
    for folder in (tmp_path / "damaged" / "checkpoints").glob("step_*"):
        (folder / "model.safetensors").unlink()
    result, watcher = run(tiny(), tmp_path / "damaged")
    assert watcher.messages[-2:] == ["no checkpoint is whole: starting anew", "32-true on the CPU"]
    assert watcher.steps[0] == 2
    assert result["metrics"] == whole["metrics"]
    assert metrics(tmp_path / "damaged") == metrics(tmp_path / "whole")


def test_precision_64_survives_the_whole_run(tmp_path):
    result, _ = run(tiny(precision="64-true"), tmp_path)
    assert math.isfinite(result["metrics"]["loss"])
    assert {tensor.dtype for tensor in rmt.load(tmp_path).state_dict().values()} == {torch.float64}


def test_evaluations_and_logs_come_at_their_steps(tmp_path):
    run(tiny(), tmp_path)
    records = metrics(tmp_path)
    assert [record["step"] for record in records if "split" in record] == [4, 8, 12]
    assert [record["step"] for record in records if "train_accuracy" in record] == [2, 3, 4, 6, 8, 9, 10, 12]


def test_a_plateau_makes_the_rate_fall_during_a_run(tmp_path):
    rate = {"schedule": "plateau", "patience": 0, "factor": 0.5}
    run(tiny(rate=rate, optimizer={"name": "adam", "lr": 1e-30, "clip": 1.0}), tmp_path)
    rates = [record["rate"] for record in metrics(tmp_path) if "rate" in record]
    assert rates == [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5]


def judge(monkeypatch: pytest.MonkeyPatch, accuracy: Callable[[str], float]) -> None:
    """Let `accuracy(split)` be what an evaluation finds."""
    real = loop.measure

    def measure(model: object, task: object, config: object, asked: Measurement) -> dict[str, float]:
        return {**real(model, task, config, asked), "accuracy": accuracy(asked.split)}

    monkeypatch.setattr(loop, "measure", measure)


def step_of_trainer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Tells at which step the newest trainer is."""
    trainers: list[Trainer] = []
    real = loop.Trainer
    monkeypatch.setattr(loop, "Trainer", lambda *arguments: trainers.append(real(*arguments)) or trainers[-1])
    return lambda: trainers[-1].step


def spoil(monkeypatch: pytest.MonkeyPatch, update: int, how: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Let the losses of one update be spoiled, and all after it."""
    calls, real = [], objective.loss

    def loss(*arguments: object) -> torch.Tensor:
        calls.append(arguments)
        result = real(*arguments)
        return how(result) if len(calls) > LOSSES * (update - 1) else result

    monkeypatch.setattr(objective, "loss", loss)


def same(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_test_at_the_end_is_of_as_many_sequences_as_asked_for_and_is_told_from_its_beginning(tmp_path):
    result, watcher = run(tiny(train={"steps": 1, "test_samples": 5}), tmp_path)
    assert result["metrics"]["samples"] == 5
    assert watcher.tested == [(0, 5), (5, 5)]
