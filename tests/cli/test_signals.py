"""Signals to real processes: what runs is saved, said in a line, and goes on with the same command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rmt as package
from tests.cli.command import TRAIN, rmt, varied
from tests.cli.test_stream_command import TEXT, TINY_TEXT
from tests.train.processes import fork_processes

SOURCES = os.pathsep.join(map(str, (Path(package.__file__).parents[1], Path(__file__).parents[2])))
ENDLESSLY = "--steps 1000000 --train.save_every 1000000 --train.evaluate_every 1000000"
ENDLESS = f"{TRAIN} {ENDLESSLY}"
SECONDS = 120  # that a process may take to come so far


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _no_process_left(monkeypatch):
    started, real = [], subprocess.Popen

    def recorded(*arguments, **options):
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", recorded)
    yield
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def start(command: str):
    return subprocess.Popen(
        [sys.executable, "-m", "rmt", *varied(command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(happened: Callable[[], bool], process) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_run_is_saved_by_sighup(tmp_path):
    process = start(f"{ENDLESS} --out run")
    wait_until(lambda: lines(Path("run/metrics.jsonl")) > 3, process)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=SECONDS)
    (name,) = (path.name for path in Path("run/checkpoints").glob("step_*"))
    step = name.removeprefix("step_")
    assert process.returncode == 128 + signal.SIGHUP
    assert err == f"rmt: stopped by SIGHUP; step {step} is saved in run; the same command goes on\n"


def test_a_signal_to_any_of_two_processes_stops_both_at_one_step():
    Path("text").write_text(TEXT)
    command = f"train text --data text {TINY_TEXT} {ENDLESSLY} --train.log_every 3 --out run"
    processes = fork_processes(2, varied(command))
    wait_until(lambda: lines(Path("run/metrics.jsonl")) > 1, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    answers = [process.communicate(timeout=SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [128 + signal.SIGTERM] * 2, answers
    (name,) = (path.name for path in Path("run/checkpoints").glob("step_*"))
    step = int(name.removeprefix("step_"))
    assert step % 3 == 0
    said = f"rmt: stopped by SIGTERM; step {step} is saved in run; the same command goes on"
    assert said in answers[0][1].splitlines()
    assert said not in answers[1][1].splitlines()


@pytest.mark.slow
def test_a_signal_to_torchrun_stops_its_processes_and_the_run_is_saved():
    Path("text").write_text(TEXT)
    command = f"train text --data text {TINY_TEXT} {ENDLESSLY} --train.log_every 3 --out run"
    torchrun = "-m torch.distributed.run --standalone --nproc-per-node 2 -m rmt"
    words = [sys.executable, *torchrun.split(), *varied(command)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: lines(Path("run/metrics.jsonl")) > 1, process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS)
    (name,) = (path.name for path in Path("run/checkpoints").glob("step_*"))
    step = name.removeprefix("step_")
    said = f"rmt: stopped by SIGTERM; step {step} is saved in run; the same command goes on"
    assert err.splitlines().count(said) == 1, err
    assert process.returncode in (1, -signal.SIGABRT)  # torchrun's own, which sometimes aborts at its end


def test_runs_of_a_comparison_get_the_signal_and_save_before_the_command_ends():
    script = (
        "import sys\n"
        "from rmt.experiments import suites\n"
        "from tests.experiments.tiny import echo_cell\n"
        "endless = {'train': {'steps': 10**6, 'save_every': 10**6, 'evaluate_every': 10**6}}\n"
        "cells = [echo_cell(name, endless) for name in ('first', 'second')]\n"
        "suites.plan = lambda order: suites.Ordered(cells, {})\n"
        "from rmt.cli.main import main\n"
        "sys.exit(main('reproduce figure-3 --workers 1 --device cpu --out runs'.split()))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: lines(Path("runs/first/seed-0/metrics.jsonl")) > 1, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGINT
    said = "0 of 2 cells are finished, what ran is saved in runs; the same command goes on"
    assert err == f"rmt: stopped by SIGINT; {said}\n"
    assert len(list(Path("runs/first/seed-0/checkpoints").glob("step_*"))) == 1
    assert "rmt: stopped by SIGINT; step" in Path("runs/first.log").read_text()
    assert not Path("runs/second").exists()


def test_a_stream_that_waits_for_input_is_saved_by_sigterm(capsys):
    Path("text").write_text(TEXT)
    assert rmt(capsys, f"train text --data text --out run {TINY_TEXT}").code == 0
    whole = json.loads(rmt(capsys, "stream run text --json --device cpu").out)
    process = start("stream run - --save state --save_every 1 --device cpu --quiet")
    process.stdin.write(TEXT[:800])
    process.stdin.flush()
    wait_until(Path("state").exists, process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.startswith("rmt: stopped by SIGTERM; ")
    assert err.endswith(" bytes are read and saved; go on with --resume state\n")
    count = int(err.split("; ")[1].split()[0].replace(",", ""))
    Path("rest").write_text(TEXT[count:])
    answer = rmt(capsys, "stream run rest --resume state --json --device cpu")
    assert json.loads(answer.out)["perplexity"] == whole["perplexity"]


def test_a_signal_before_there_is_anything_to_save_stops_at_once():
    process = start("stream --config -")  # waits for its settings
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)  # before or behind the handler
    if process.returncode > 0:
        assert err == "rmt: interrupted by SIGTERM\n"


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("train copy", "; a run goes on with the same command"),
        ("finetune x --backbone y", "; a run goes on with the same command"),
        ("reproduce figure-3", "; a run goes on with the same command"),
        ("evaluate run", ""),
        ("data list", ""),
        ("bench copy", ""),
    ],
)
def test_ctrl_c_is_a_line_that_says_how_to_go_on_where_one_can(command, remedy, capsys, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("rmt.cli.main.handling_signals", interrupted)
    assert rmt(capsys, command) == (130, "", f"rmt: interrupted{remedy}\n")
