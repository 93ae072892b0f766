"""Two or four processes train the model that one would: replicated or sharded, stopped and resumed."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rmt.config import from_dict, to_dict
from rmt.errors import ConfigError
from rmt.train.config import RunConfig
from rmt.train.loop import Loop
from rmt.train.processes import is_first
from rmt.train.snapshots import snapshot
from rmt.yamlfile import write_yaml
from tests.train.processes import TEXT, in_processes, in_two_processes, start_processes
from tests.train.runs import Unplugged, Watcher, tiny, trainer_of

STRATEGIES = ("ddp", "fsdp")
DOUBLE = {"precision": "64-true", "optimizer": {"clip": 0.1}}


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_book()


def write_book() -> None:
    generator = torch.Generator().manual_seed(0)
    letters = torch.randint(97, 117, (1000,), generator=generator)
    Path("book.txt").write_bytes(bytes(letters.tolist()))


SETTINGS = {
    "sequences": {},
    "sequences-of-ragged-loss": {"bptt": {"schedule": "sliding", "depth": 1}},
    "text": TEXT,
    "text-reset": {
        **TEXT,
        "task": {**TEXT["task"], "reset": 2},
        "bptt": {"schedule": "chunked", "depth": 1},
    },
    "recomputed": {"bptt": {"checkpoint": True}},
    "accumulated": {"train": {"accumulate": 2}},
    "no-memory": {**TEXT, "model": {**TEXT["model"], "memory": {"size": 0}}},
    "adam": {"optimizer": {"name": "adam", "clip": 0.1}},
    "adaptive": {**TEXT, "model": {**TEXT["model"], "cutoffs": [8, 16]}},
}


@pytest.fixture(scope="module", params=STRATEGIES)
def of_two_processes(request, tmp_path_factory):
    """A folder with what two processes have learned of three batches, in a file for each of the settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("two"))
        write_book()
        in_two_processes(three_batches, [*SETTINGS], request.param)
    return folder


@pytest.mark.parametrize("name", SETTINGS)
def test_two_processes_take_the_steps_of_one(of_two_processes, name):
    assert_steps_of_one(name, of_two_processes)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["sequences", "text-reset"])
def test_four_processes_take_the_steps_of_one(tmp_path, name, strategy):
    in_processes(4, three_batches, [name], strategy)
    assert_steps_of_one(name, tmp_path)


def assert_steps_of_one(name: str, folder: Path) -> None:
    alone = trainer_of(config_of({**DOUBLE, **SETTINGS[name]}))
    losses = [update.loss for _ in range(3) for update in alone.to_host(list(alone.updates()))]
    weights = load_file(folder / name)
    torch.testing.assert_close(weights.pop("losses"), torch.tensor(losses), rtol=1e-9, atol=0)
    for key, tensor in alone.model.state_dict().items():
        torch.testing.assert_close(weights[key], tensor, rtol=1e-9, atol=1e-10, msg=key)


def three_batches(names: list[str], strategy: str) -> None:
    for name in names:
        trainer = trainer_of(config_of({**DOUBLE, **SETTINGS[name], "strategy": strategy}))
        losses = [update.loss for _ in range(3) for update in trainer.to_host(list(trainer.updates()))]
        weights = snapshot(trainer).model
        if is_first():
            save_file({**weights, "losses": torch.tensor(losses)}, name)


@pytest.mark.parametrize("precision", ["32-true", pytest.param("bf16-mixed", marks=pytest.mark.slow)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_stopped_and_resumed_end_with_the_bits_of_an_uninterrupted_run(strategy, precision):
    model = {**TEXT["model"], "dropout": 0.2}
    config = config_of({**TEXT, "model": model, "strategy": strategy, "precision": precision})
    for folder in ("whole", "stopped"):
        Path(folder).mkdir()
        (Path(folder) / "config.yaml").write_text(write_yaml(to_dict(config)))
    in_two_processes(run_whole_and_stopped, config)
    for part in ("model", "optimizer", "state"):
        mine, theirs = (
            load_file(Path(folder) / "checkpoints" / "step_6" / f"{part}.safetensors")
            for folder in ("stopped", "whole")
        )
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def run_whole_and_stopped(config: RunConfig) -> None:
    Loop(config, Path("whole"), Watcher()).run()
    for stop in (3, 5, None):
        with contextlib.suppress(Unplugged):
            Loop(config, Path("stopped"), Watcher(stop)).run()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_killed_and_resumed_end_with_the_bits_of_an_uninterrupted_run(tmp_path, strategy):
    command = (
        "train text --data book.txt --steps 20 --batch 4 --memory 2 --device cpu --task.segment_length 8 "
        "--model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 --model.inner_width 8 "
        f"--train.log_every 1 --train.save_every 2 --train.evaluate_every 10 --strategy {strategy}"
    ).split()
    killed = start_processes(2, [*command, "--out", "killed"])
    wait_for(tmp_path / "killed" / "checkpoints" / "step_10", killed)
    os.killpg(killed[0].pid, signal.SIGKILL)
    [process.communicate() for process in killed]
    assert [process.returncode for process in killed] == [-signal.SIGKILL] * 2
    for folder in ("killed", "whole"):
        finished = start_processes(2, [*command, "--out", folder])
        said = [process.communicate() for process in finished]
        assert [process.returncode for process in finished] == [0, 0], said
        assert (tmp_path / folder / "result.json").exists()
        assert "perplexity" in said[0][0]
        assert not said[1][0]
    mine, theirs = (
        load_file(tmp_path / folder / "checkpoints" / "step_20" / "model.safetensors")
        for folder in ("killed", "whole")
    )
    assert all(torch.equal(mine[key], theirs[key]) for key in theirs)


def wait_for(path: Path, processes: list) -> None:
    for _ in range(600):
        if path.exists():
            return
        assert all(process.poll() is None for process in processes), processes[0].communicate()
        time.sleep(0.1)
    raise AssertionError(f"{path} never came")


def test_a_batch_that_does_not_share_is_refused():
    config = config_of({"train": {"batch": 5}})
    in_two_processes(refused, config, "train.batch=5 does not share among 2 processes")


def refused(config: RunConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trainer_of(config)


def test_a_single_process_cannot_shard():
    with pytest.raises(ConfigError, match="strategy=fsdp needs more than one process; start with torchrun"):
        trainer_of(config_of({"strategy": "fsdp"}))


def config_of(groups: dict) -> RunConfig:
    """A tiny run: of sequences with other settings where given, or of text with these only."""
    if groups.get("task", {}).get("name") == "text":
        return from_dict(RunConfig, {**groups, "device": "cpu"})
    return tiny(**groups)
