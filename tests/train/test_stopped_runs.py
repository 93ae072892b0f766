"""A run that a signal has stopped, anywhere, goes on and ends as one that nothing has stopped."""

import signal
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from rmt.experiments.run import train, train_seeds
from rmt.stopping import REQUEST, Interrupted, Stopped, handling_signals
from rmt.train import checkpoint
from rmt.train.checkpoint import Checkpoints, load_parts
from rmt.train.loop import Loop
from tests.covering import quick
from tests.train.runs import SCHEDULES, Watcher, metrics, tiny
from tests.train.seeds import SEEDS, reach, watchers

SETTINGS = {
    **{name: {"bptt": bptt, "model": {"dropout": 0.3}} for name, bptt in SCHEDULES.items()},
    "curriculum": {"curriculum": {"over": "length", "promote_at": 0.05}},
    "between lines of the log": {"train": {"log_every": 5, "save_every": 100}},
}
PARTS = ("model", "optimizer", "state")


class Signaller(Watcher):
    """Raises a signal when it hears of a step: the run is asked to stop behind the next update."""

    def __init__(self, step: int, number: int = signal.SIGTERM):
        super().__init__()
        self.step, self.number = step, number

    def logged(self, record: dict[str, Any]) -> None:
        if record["step"] == self.step:
            signal.raise_signal(self.number)

    def testing(self, done: int, total: int) -> None:
        if self.step < 0:
            signal.raise_signal(self.number)


def assert_same_bits(mine, theirs, step=12):
    """Checkpoints, but for clocks, and the log are the same."""
    saved, expected = (load_parts(run / "checkpoints" / f"step_{step}") for run in (mine, theirs))
    for part in PARTS:
        tensors, wanted = getattr(saved, part), getattr(expected, part)
        assert tensors.keys() == wanted.keys()
        assert all(torch.equal(tensors[name], wanted[name]) for name in wanted), part
    assert {**saved.trainer, "seconds": 0} == {**expected.trainer, "seconds": 0}
    assert metrics(mine) == metrics(theirs)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_saves_behind_the_update_and_says_what_is_saved(tmp_path, number):
    with handling_signals(), pytest.raises(Stopped) as stopped:
        train(tiny(), tmp_path / "run", Signaller(4, number))
    assert stopped.value.exit_code == 128 + number
    name = signal.Signals(number).name
    assert str(stopped.value) == (
        f"stopped by {name}; step 5 is saved in {tmp_path / 'run'}; the same command goes on"
    )
    assert Checkpoints(tmp_path / "run").named("last") == "step_5"


@pytest.mark.parametrize("settings", quick(SETTINGS, "sliding", "curriculum", "between lines of the log"))
def test_a_run_stopped_by_signals_ends_with_the_bits_and_the_log_of_an_uninterrupted_one(tmp_path, settings):
    config = tiny(**settings)
    train(config, tmp_path / "whole", Watcher())
    for step in sorted({record["step"] for record in metrics(tmp_path / "whole") if "loss" in record})[:-1:2]:
        with handling_signals(), pytest.raises(Stopped):
            train(config, tmp_path / "stopped", Signaller(step))
    train(config, tmp_path / "stopped", Watcher())
    assert_same_bits(tmp_path / "stopped", tmp_path / "whole")


def test_a_signal_during_the_test_stops_at_once_and_the_test_is_made_again(tmp_path):
    with handling_signals(), pytest.raises(Stopped, match=r"training is over and saved in .*with the test"):
        train(tiny(), tmp_path / "run", Signaller(-1))
    assert not (tmp_path / "run" / "result.json").exists()
    result, was_finished = train(tiny(), tmp_path / "run", Watcher())
    assert (result["steps"], was_finished) == (12, False)


def test_a_library_call_installs_no_handler(tmp_path):
    before, seen = signal.getsignal(signal.SIGTERM), []

    class Looking(Watcher):
        def logged(self, record: dict[str, Any]) -> None:
            seen.append(signal.getsignal(signal.SIGTERM))

    train(tiny(), tmp_path / "run", Looking())
    assert set(seen) == {before}
    assert REQUEST.signal == 0


@pytest.mark.parametrize("dropout", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_seeds_stopped_by_signals_are_all_at_one_step_and_end_with_the_bits_of_uninterrupted_ones(
    tmp_path, monkeypatch, dropout
):
    config = tiny(model={"dropout": dropout}, train={"target": 0.9, "steps": 16})
    reach(monkeypatch, {1: 8})
    train_seeds(config, tmp_path / "whole", watchers())
    for member, step in ((0, 2), (2, 4), (2, 10)):
        heard = watchers()
        heard[member] = Signaller(step)
        with handling_signals(), pytest.raises(Stopped, match="all seeds are saved in"):
            train_seeds(config, tmp_path / "stopped", heard)
        newest = [Checkpoints(tmp_path / "stopped" / f"seed-{seed}").steps()[0] for seed in range(SEEDS)]
        assert newest == [step + 1, min(step + 1, 8), step + 1]
    train_seeds(config, tmp_path / "stopped", watchers())
    for seed, step in enumerate((16, 8, 16)):
        assert_same_bits(tmp_path / "stopped" / f"seed-{seed}", tmp_path / "whole" / f"seed-{seed}", step)


def test_seeds_cut_off_between_any_two_saves_end_with_the_bits_of_uninterrupted_ones(tmp_path, monkeypatch):
    """Some saves are the last thing that a process does: a seed has a step that others lack, or is first."""
    config = tiny(model={"dropout": 0.3}, train={"target": 0.9, "steps": 16})
    reach(monkeypatch, {1: 8})
    train_seeds(config, tmp_path / "whole", watchers())
    real, saves, cuts = Checkpoints.save, [], 0

    class Cut(BaseException):
        pass

    def save(self, *arguments):
        real(self, *arguments)
        saves.append(self)
        if len(saves) in (1, 3) or len(saves) % 7 == 0:
            raise Cut

    monkeypatch.setattr(Checkpoints, "save", save)
    while not (tmp_path / "cut" / "seed-2" / "result.json").exists():
        try:
            train_seeds(config, tmp_path / "cut", watchers())
        except Cut:
            cuts += 1
    assert cuts > 2
    for seed, step in enumerate((16, 8, 16)):
        assert_same_bits(tmp_path / "cut" / f"seed-{seed}", tmp_path / "whole" / f"seed-{seed}", step)


def test_a_run_alone_saves_only_the_best_of_its_evaluations(tmp_path):
    loop = Loop(tiny(), tmp_path, Watcher())
    assert not loop.saves_evaluated


def test_a_second_signal_while_saving_stops_at_once_and_what_is_on_disk_stays_whole(tmp_path, monkeypatch):
    train(tiny(), tmp_path / "whole", Watcher())
    real = checkpoint.write_parts

    def interrupted(folder, snapshot):
        if snapshot.trainer["step"] == 7:
            save_file(snapshot.model, folder / "model.safetensors")
            signal.raise_signal(signal.SIGTERM)
        real(folder, snapshot)

    monkeypatch.setattr(checkpoint, "write_parts", interrupted)
    with handling_signals(), pytest.raises(Interrupted):
        train(tiny(), tmp_path / "stopped", Signaller(6))
    monkeypatch.undo()
    assert Checkpoints(tmp_path / "stopped").steps()[0] == 6
    train(tiny(), tmp_path / "stopped", Watcher())
    assert_same_bits(tmp_path / "stopped", tmp_path / "whole")
