"""Killed at a random step and resumed, a run ends with the same bits as one that was never touched."""

import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rmt.cli.main import main
from tests.covering import quick
from tests.forks import ForkedCommand
from tests.train.runs import SCHEDULES, metrics, run, tiny

STEPS = 40
TRAIN = (
    "train {task} --length 3 --segments 3 --memory 2 --batch 4 --steps {steps} --device cpu "
    "--model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 --model.inner_width 8 "
    "--train.log_every 1 --train.save_every 7 --train.evaluate_every 20 --train.evaluate_samples 8 "
    "--schedule {schedule} --depth {depth} --train.test_samples 12"
)
SETTINGS = {
    "shuffled": {"task": {"source": "fixed", "shuffle": True}, "train": {"batch": 16}},
    "adam": {"optimizer": {"name": "adam"}},
    "plateau": {
        "optimizer": {"lr": 1e-30, "matrix_lr": 1e-30},
        "rate": {"schedule": "plateau", "patience": 1},
        "train": {"evaluate_every": 2},
    },
    "adamw": {"optimizer": {"name": "adamw", "weight_decay": 0.1}},
    "curriculum": {"curriculum": {"over": "length", "promote_at": 0.01}},
    "double": {"precision": "64-true"},
}
PARTS = ("model.safetensors", "optimizer.safetensors", "state.safetensors", "trainer.json")


@pytest.mark.parametrize(
    "schedule", ["sliding", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sequence", "chunked"))]
)
def test_a_run_killed_at_a_random_step_ends_with_the_bits_of_an_uninterrupted_one(tmp_path, capsys, schedule):
    command = TRAIN.format(task="copy", steps=STEPS, **SCHEDULES[schedule]).split()
    step = random.randrange(16, STEPS - 10)  # the first checkpoint, of step 7 or 8, is surely there
    kill_at(step, [*command, "--out", str(tmp_path / "killed")], tmp_path / "killed")
    assert not (tmp_path / "killed" / "result.json").exists()
    assert main([*command, "--out", str(tmp_path / "killed")]) == 0
    assert "rmt  resuming at step" in capsys.readouterr().out
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    assert_same_run(tmp_path / "killed", tmp_path / "whole", STEPS)


@pytest.mark.parametrize("bptt", quick(SCHEDULES, "sliding"))
def test_a_run_with_dropout_stopped_anywhere_ends_with_the_bits_of_an_uninterrupted_one(tmp_path, bptt):
    config = tiny(bptt=bptt, model={"dropout": 0.3})
    run(config, tmp_path / "whole")
    for stop in (1, 5, 11):
        run(config, tmp_path / f"stopped_{stop}", stop=stop)
        run(config, tmp_path / f"stopped_{stop}")
        assert_same_run(tmp_path / f"stopped_{stop}", tmp_path / "whole", 12)


@pytest.mark.parametrize("settings", quick(SETTINGS, "shuffled", "plateau", "adamw", "curriculum"))
def test_a_run_stopped_twice_ends_with_the_bits_of_an_uninterrupted_one(tmp_path, settings):
    config = tiny(**settings)
    run(config, tmp_path / "whole")
    run(config, tmp_path / "stopped", stop=4)
    run(config, tmp_path / "stopped", stop=8)
    run(config, tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", tmp_path / "whole", 12)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run, and one that was stopped after it had saved steps 4 and 6."""
    folder = tmp_path_factory.mktemp("runs")
    torch.set_num_threads(1)
    run(tiny(), folder / "whole")
    run(tiny(), folder / "stopped", stop=8)
    assert sorted(path.name for path in (folder / "stopped" / "checkpoints").glob("step_*")) == [
        "step_4",
        "step_6",
    ]
    return folder


@pytest.mark.covering
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
@pytest.mark.parametrize("part", PARTS)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(tmp_path, runs, part, damage):
    shutil.copytree(runs / "stopped", tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "step_6"
    break_file(newest / part, damage)
    _, watcher = run(tiny(), tmp_path / "run")
    warning, resuming, path = watcher.messages
    assert warning.startswith(f"checkpoint {newest} is damaged: {part} ")
    assert warning.endswith("; going back to the checkpoint before it")
    assert (resuming, path) == ("resuming at step 4", "32-true on the CPU")
    assert_same_run(tmp_path / "run", runs / "whole", 12)


def test_a_damaged_checkpoint_is_named_on_the_command_line(tmp_path, capsys):
    command = TRAIN.format(task="tests.train.runs:Echo", steps=8, **SCHEDULES["sequence"]).split()
    command += ["--out", str(tmp_path / "run")]
    assert main(command) == 0
    (tmp_path / "run" / "result.json").unlink()
    break_file(tmp_path / "run" / "checkpoints" / "step_8" / "model.safetensors", "flipped")
    capsys.readouterr()
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        f"rmt: checkpoint {tmp_path}/run/checkpoints/step_8 is damaged: model.safetensors does not match its "
        "checksum; going back to the checkpoint before it"
    ]
    assert "rmt  resuming at step 7" in out.splitlines()


def kill_at(step: int, command: list[str], folder: Path) -> None:
    """Fork `rmt` with a command and kill it, as soon as it has logged a step."""
    deadline = time.monotonic() + 120
    process = ForkedCommand(command, {})
    try:
        while logged_step(folder / "metrics.jsonl") < step:
            assert process.poll() is None, f"ended before step {step}"
            assert time.monotonic() < deadline, f"no step {step} after two minutes"
            time.sleep(0.002)
    finally:
        process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def logged_step(log: Path) -> int:
    """The last step that a run has written about; the last line may be unfinished."""
    steps = re.findall(r'"step": (\d+),', log.read_text()) if log.exists() else []
    return max(map(int, steps), default=0)


def break_file(path: Path, damage: str) -> None:
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
        return
    if damage == "flipped":
        content[len(content) * 2 // 3] ^= 4
    path.write_bytes(content[:-5] if damage == "truncated" else content)


def assert_same_run(mine: Path, theirs: Path, step: int) -> None:
    """Equal weights, optimizer and random numbers at the last step; equal logs; the same best checkpoint."""
    for part in ("model", "optimizer", "state"):
        left, right = (
            load_file(run / "checkpoints" / f"step_{step}" / f"{part}.safetensors") for run in (mine, theirs)
        )
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in right)
    assert metrics(mine) == metrics(theirs)
    for pointer in ("last", "best"):
        assert (mine / "checkpoints" / pointer).read_text() == (theirs / "checkpoints" / pointer).read_text()
