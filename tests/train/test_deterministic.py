"""`--deterministic`: torch's switch is set for the run and put back, cuBLAS has its workspace in time."""

import os
from typing import Any

import pytest
import torch

from rmt.errors import ConfigError
from rmt.experiments.run import train, train_seeds
from rmt.train.deterministic import REASON_NOT_SERVED, WORKSPACE, deterministic
from rmt.train.single import SingleUpdater
from tests.train.runs import Watcher, metrics, tiny, weights


class Looking(Watcher):
    """Keeps whether torch is deterministic while a run is trained."""

    seen: bool | None = None

    def logged(self, record: dict[str, Any]) -> None:
        self.seen = torch.are_deterministic_algorithms_enabled()


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """Neither switch nor variable, before and behind."""
    monkeypatch.setenv(WORKSPACE, "")  # so that it is put back
    monkeypatch.delenv(WORKSPACE)
    assert not torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("asked", [True, False])
def test_the_switch_is_set_while_a_run_is_trained_and_then_put_back(tmp_path, asked):
    train(tiny(deterministic=asked), tmp_path, watcher := Looking())
    assert watcher.seen is asked
    assert not torch.are_deterministic_algorithms_enabled()
    assert WORKSPACE not in os.environ  # no business of a CPU's


def test_seeds_have_it_too_and_an_error_puts_it_back(tmp_path):
    watchers = [Looking(), Looking()]
    train_seeds(tiny(deterministic=True), tmp_path / "seeds", watchers)
    assert [watcher.seen for watcher in watchers] == [True, True]
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        train(tiny(deterministic=True), tmp_path / "file" / "run", Looking())
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_caller_who_only_wants_warnings_has_them_again():
    torch.use_deterministic_algorithms(True, warn_only=True)
    with deterministic(True, "cpu"):
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()


def test_the_workspace_is_fixed_before_cuda_starts(monkeypatch):
    with deterministic(True, "cuda"):
        assert os.environ[WORKSPACE] == ":4096:8"
    monkeypatch.setenv(WORKSPACE, ":16:8")
    with deterministic(True, "cuda"):
        assert os.environ[WORKSPACE] == ":16:8"


@pytest.mark.parametrize(
    ("value", "cause"), [(None, "CUDA has started without it"), (":4096:2:16:8", "it is ':4096:2:16:8'")]
)
def test_a_workspace_that_comes_too_late_is_refused(monkeypatch, value, cause):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    if value:
        monkeypatch.setenv(WORKSPACE, value)
    with (
        pytest.raises(ConfigError, match=f"needs {WORKSPACE}=:4096:8 .*, and {cause}"),
        deterministic(True, "cuda"),
    ):
        pass


def test_the_engine_is_left_out_and_says_why():
    updater = SingleUpdater(tiny(deterministic=True))
    assert updater.why_not_served() == REASON_NOT_SERVED
    assert SingleUpdater(tiny()).why_not_served() != REASON_NOT_SERVED


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_two_runs_on_a_gpu_have_the_same_bits(tmp_path, monkeypatch, precision):
    monkeypatch.setenv(WORKSPACE, ":4096:8")
    config = tiny(
        device="cuda", deterministic=True, precision=precision, model={"dropout": 0.1}, task={"length": 40}
    )
    for name in ("first", "second"):
        train(config, tmp_path / name, Watcher())
    assert metrics(tmp_path / "first") == metrics(tmp_path / "second")
    first, second = (weights(tmp_path / name, 12) for name in ("first", "second"))
    assert all(torch.equal(first[name], second[name]) for name in second)
