"""A loss that is no number: the truth about what is kept, and the way back with a smaller rate."""

import json
import math

import pytest
import torch

from rmt.train import objective
from rmt.train.checkpoint import Checkpoints, load_parts
from rmt.train.divergence import MAX_TIMES_BACK, Diverged
from rmt.train.optim import Rate
from tests.train.runs import metrics, run, tiny

BACK = {"on_nan": "back"}


def explode(monkeypatch, rate, first=5):
    """From update `first` on, the loss is no number where learning rates are times `rate` or more."""
    real, factor, now = objective.loss, Rate.factor, {}

    def applied(self, step):
        now["step"], now["rate"] = step + 1, factor(self, step)
        return now["rate"]

    def loss(*inputs):
        spoiled = now["step"] >= first and now["rate"] >= rate
        return real(*inputs) * (math.nan if spoiled else 1.0)

    monkeypatch.setattr(Rate, "factor", applied)
    monkeypatch.setattr(objective, "loss", loss)


def test_a_run_that_diverges_before_its_first_checkpoint_does_not_say_that_one_is_kept(tmp_path, monkeypatch):
    explode(monkeypatch, rate=0.0, first=1)
    with pytest.raises(
        Diverged, match=r"loss=nan at step 1: .*no checkpoint was saved before, so .*keeps none"
    ):
        run(tiny(), tmp_path)
    assert Checkpoints(tmp_path).steps() == []


def test_a_run_that_diverges_names_the_checkpoint_that_is_whole(tmp_path, monkeypatch):
    run(tiny(), tmp_path, stop=8)
    assert Checkpoints(tmp_path).steps() == [6, 4]
    explode(monkeypatch, rate=0.0, first=7)
    with pytest.raises(
        Diverged,
        match=r"the checkpoint of step 6 is kept in .*checkpoints; lower optimizer\.lr and "
        "start anew with --restart, or with --restart --on_nan back$",
    ):
        run(tiny(), tmp_path)


def test_weights_that_are_no_numbers_are_never_saved(tmp_path):
    config = tiny(
        optimizer={"name": "adamw", "lr": 1e6, "weight_decay": 1e34},
        train={"save_every": 1, "evaluate_every": 12},
    )
    with pytest.raises(Diverged, match="weight=nan at step 1: training diverged; no checkpoint was saved"):
        run(config, tmp_path)
    assert Checkpoints(tmp_path).steps() == []


def test_going_back_halves_the_rate_until_the_loss_is_a_number_and_says_so(tmp_path, monkeypatch):
    explode(monkeypatch, rate=0.5)
    result, watcher = run(tiny(train=BACK), tmp_path)
    assert result["steps"] == 12
    said = [message for message in watcher.messages if "going back" in message]
    assert said == [
        f"training diverged at step 5; going back to step 4 with learning rates times {scale} "
        f"({number} of at most {MAX_TIMES_BACK})"
        for number, scale in ((1, 0.5), (2, 0.25))
    ]
    trainer = json.loads((tmp_path / "checkpoints" / "step_12" / "trainer.json").read_text())["trainer"]
    assert (trainer["rate"]["scale"], trainer["times_back"]) == (0.25, 2)
    lines = metrics(tmp_path)
    assert [line for line in lines if "times_back" in line] == [
        {"step": 4, "diverged_at": 5, "times_back": number, "rate_scale": scale}
        for number, scale in ((1, 0.5), (2, 0.25))
    ]
    rates = {line["step"]: line["rate"] for line in lines if "rate" in line}
    assert rates == {step: 1.0 if step <= 4 else 0.25 for step in rates}


def test_a_run_goes_back_to_its_beginning_where_nothing_else_was_saved(tmp_path, monkeypatch):
    explode(monkeypatch, rate=1.0, first=2)
    result, watcher = run(tiny(train=BACK), tmp_path)
    assert result["steps"] == 12
    assert any("at step 2; going back to step 0" in message for message in watcher.messages)


def test_a_run_goes_back_only_so_often(tmp_path, monkeypatch):
    explode(monkeypatch, rate=0.0)
    with pytest.raises(Diverged, match=f"it has gone back {MAX_TIMES_BACK} times already"):
        run(tiny(train=BACK), tmp_path)
    assert len([record for record in metrics(tmp_path) if "times_back" in record]) == MAX_TIMES_BACK


@pytest.mark.parametrize("stop", [6, 8])
def test_a_run_that_went_back_and_was_cut_off_ends_with_the_bits_and_the_log_of_one_that_was_not(
    tmp_path, monkeypatch, stop
):
    explode(monkeypatch, rate=0.5)
    config = tiny(train={**BACK, "save_every": 4}, model={"dropout": 0.3})
    run(config, tmp_path / "whole")
    run(config, tmp_path / "cut", stop=stop)
    run(config, tmp_path / "cut")
    mine, theirs = (load_parts(tmp_path / name / "checkpoints" / "step_12") for name in ("cut", "whole"))
    assert all(torch.equal(mine.model[name], theirs.model[name]) for name in theirs.model)
    assert {**mine.trainer, "seconds": 0} == {**theirs.trainer, "seconds": 0}
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
