"""A process that dies or falls silent ends the others with a line, within a bounded time; the run goes on."""

import shutil
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from rmt.config import to_dict
from rmt.train import processes
from rmt.train.loop import Loop
from rmt.train.processes import ProcessLost, all_needed, is_first, launch, reason_lost
from rmt.yamlfile import write_yaml
from tests.train.processes import fork_processes, in_processes, in_two_processes
from tests.train.runs import Watcher, tiny

BOUND_SECONDS = 60  # gloo notices a closed connection at once; the rest is for a busy machine
KILLED = [
    pytest.param(2, 1, "ddp", id="second-of-two", marks=pytest.mark.slow),
    pytest.param(2, 0, "ddp", id="first-of-two"),
    pytest.param(2, 1, "fsdp", id="second-of-two-sharded", marks=pytest.mark.slow),
    pytest.param(4, 0, "fsdp", id="first-of-four-sharded", marks=pytest.mark.slow),
    pytest.param(4, 2, "ddp", id="third-of-four", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    letters = torch.randint(97, 117, (1000,), generator=torch.Generator().manual_seed(0))
    Path("book.txt").write_bytes(bytes(letters.tolist()))


def command(strategy: str, steps: int) -> list[str]:
    return (
        f"train text --data book.txt --steps {steps} --batch 4 --memory 2 --device cpu --strategy {strategy} "
        "--task.segment_length 8 --model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 "
        "--model.inner_width 8 --train.log_every 1 --train.save_every 2 --train.evaluate_every 500 --out run"
    ).split()


@pytest.mark.parametrize(("count", "killed", "strategy"), KILLED)
def test_a_killed_process_ends_the_others_with_a_line(count, killed, strategy):
    started = fork_processes(count, command(strategy, steps=100_000))
    wait_for(Path("run/checkpoints/last"), started)
    started[killed].kill()
    begin = time.monotonic()
    messages = [process.communicate(timeout=BOUND_SECONDS) for process in started]
    assert time.monotonic() - begin < BOUND_SECONDS
    for rank, (process, (_, err)) in enumerate(zip(started, messages, strict=True)):
        if rank == killed:
            assert process.returncode == -signal.SIGKILL
            continue
        assert process.returncode == 1, err
        line = err.splitlines()[-1]
        assert line.startswith(f"rmt: process {rank} of {count} lost another one ("), err
        assert line.endswith("the same command goes on from the last checkpoint")
        assert "Traceback" not in err


def wait_for(path: Path, started: list) -> None:
    for _ in range(10 * BOUND_SECONDS):
        if path.exists():
            return
        assert all(process.poll() is None for process in started), started[0].communicate()
        time.sleep(0.1)
    raise AssertionError(f"{path} never came")


@pytest.mark.slow
def test_a_silent_process_is_waited_for_as_long_as_patience_lasts(monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", timedelta(seconds=2))
    in_two_processes(one_falls_silent)


def one_falls_silent() -> None:
    member = launch("cpu", "32-true", batch=2, accumulate=1)
    member.barrier()
    if not is_first():
        time.sleep(6)
        return
    begin = time.monotonic()
    with pytest.raises(ProcessLost, match=r"process 0 of 2 lost another one \(.*[Tt]imed out"), all_needed():
        member.all_reduce(torch.ones(1))
    assert time.monotonic() - begin < 5


def test_an_error_of_its_own_is_not_another_process():
    with pytest.raises(RuntimeError, match="shapes"), all_needed():
        raise RuntimeError("shapes do not match")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "[/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:2677: Connection reset by peer. "
            "This is typically caused by a remote worker hanging",
            "Read error [127.0.0.1]:2677: Connection reset by peer",
        ),
        ("Broken pipe\nmore", "Broken pipe"),
    ],
)
def test_a_reason_is_what_gloo_says_without_its_advice(message, reason):
    assert reason_lost(message) == reason


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_all_processes_start_anew_where_the_first_discards_a_run(tmp_path, count):
    """However long it takes to: the others wait before they look for checkpoints."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(write_yaml(to_dict(tiny())))
    in_processes(count, finish)
    in_processes(count, finish_anew)


def finish() -> None:
    Loop(tiny(), Path("run"), Watcher()).run()


def finish_anew() -> None:
    loop = Loop(tiny(), Path("run"), watcher := Watcher())
    if is_first():
        time.sleep(1)
        shutil.rmtree("run/checkpoints")
    loop.run()
    assert not any("resuming" in message for message in watcher.messages)
