"""`rmt train`: settings in, a run folder out; the same command again resumes, or says that it is finished."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
import yaml

import rmt as package
from rmt.cli import progress
from rmt.cli.main import main
from rmt.train import objective
from rmt.train.names import ALIASES
from rmt.train.stored import FORMAT
from tests.cli.command import TRAIN, printed, rmt

OWN_TASK = '''
from dataclasses import dataclass
import numpy as np
from rmt.tasks import Examples, Task, next_token

@dataclass(frozen=True, kw_only=True)
class Parity(Task):
    """Say whether the sum of the bits is odd."""

    sizes = {"train": 40, "valid": 8, "test": 12}
    bits: int = 4

    @property
    def vocabulary(self) -> int:
        return 2

    @property
    def total_length(self) -> int:
        return self.bits

    def draw(self, generator: np.random.Generator, count: int) -> Examples:
        bits = generator.integers(0, 2, (count, self.bits))
        return next_token(np.concatenate([bits, bits.sum(1, keepdims=True) % 2], axis=1), answer=1)
'''


@pytest.mark.parametrize(
    "options",
    [
        "copy",
        "copy --recipe paper --model transformer_xl_rmt",
        "copy --model baseline --recipe paper",
        "reverse --size paper --length 24 --segments 6 --target 0.99",
        "copy --model transformer_xl --cache 5 --depth 2 --schedule sliding --bptt.replay_from latest",
        "quadratic --segments 6 --optimizer.lr 1e-5 --rate.schedule cosine --train.target none",
        "retrieval --task.options pairs=3 --model memory_transformer --model.memory.recurrent on",
    ],
)
def test_a_printed_configuration_is_the_same_configuration(capsys, tmp_path, options):
    code, printed, err = rmt(capsys, f"train {options} --print_config")
    assert (code, err) == (0, "")
    (tmp_path / "config.yaml").write_text(printed)
    assert rmt(capsys, "train --config config.yaml --print_config") == (0, printed, "")
    assert not (tmp_path / "runs").exists()


def test_a_printed_configuration_is_the_one_that_is_trained(capsys, tmp_path):
    printed = rmt(capsys, f"{TRAIN} --out run --quiet --print_config").out
    rmt(capsys, f"{TRAIN} --out run --quiet")
    options = "trust: false\nout: run\nrestart: false\nseeds: 1\nlog: null\nquiet: true\n"
    written = re.sub("sha256: [0-9a-f]{64}\n", "", (tmp_path / "run" / "config.yaml").read_text())
    assert printed.count("precision: auto\n") == 1
    decided = printed.replace("precision: auto\n", "precision: 32-true\n")
    assert options + written.removeprefix(f"format: {FORMAT}\n") == decided


@pytest.mark.parametrize("precision", ["auto", "32-true", "bf16-mixed", "64-true"])
def test_a_printed_precision_is_read_back_and_goes_on(capsys, tmp_path, precision):
    command = f"{TRAIN} --out run --quiet --precision {precision}"
    Path("printed.yaml").write_text(rmt(capsys, f"{command} --print_config").out)
    assert yaml.safe_load(Path("printed.yaml").read_text())["precision"] == precision
    assert rmt(capsys, command).code == 0
    again = rmt(capsys, "train --config printed.yaml")
    assert (again.code, again.out.splitlines()[0]) == (0, "already finished: run")
    assert rmt(capsys, "train --config printed.yaml --precision auto").code == 0
    other = "64-true" if precision == "bf16-mixed" else "bf16-mixed"
    refused = rmt(capsys, f"train --config printed.yaml --precision {other}")
    assert refused.code == 2
    assert f"not {other}; name another --out, or start anew with --restart" in refused.err


def test_the_configuration_of_a_run_folder_can_be_trained_again(capsys, tmp_path):
    rmt(capsys, f"{TRAIN} --out run --quiet")
    assert rmt(capsys, "train --config run/config.yaml --out again --quiet").code == 0
    assert (tmp_path / "again" / "config.yaml").read_text() == (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            "--lr 1 --optimizer.lr 2",
            "--lr 1.0 and --optimizer.lr 2.0 are two values of optimizer.lr; leave one out",
        ),
        ("--steps 3 --steps 4", "--steps 3 and --steps 4 are two values of train.steps; leave one out"),
        (
            "--task.options symbols=3 --task.options symbols=4",
            "--task.options symbols=3 and --task.options symbols=4 are two values of task.options; "
            "leave one out",
        ),
    ],
    ids=["two-spellings", "one-flag", "one-key"],
)
def test_two_values_of_one_setting_are_an_error(capsys, command, line):
    assert main(["train", "copy", *command.split(), "--print_config"]) == 2
    assert capsys.readouterr() == ("", f"rmt: {line}\n")


def test_one_value_twice_is_one_value(capsys):
    command = "train copy --lr 0.5 --optimizer.lr .5 --task.options symbols=3 --task.options symbols=3"
    assert main([*command.split(), "--task.options", "seed=1", "--print_config"]) == 0
    config = yaml.safe_load(capsys.readouterr().out)
    assert config["optimizer"]["lr"] == 0.5
    assert config["task"]["options"] == {"symbols": 3, "seed": 1}


def test_the_command_line_goes_before_the_config_file(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "seed: 5\ntask: {name: reverse, segments: 4}\noptimizer: {lr: 1e-4}\n"
    )
    config = printed(capsys, "train --config mine.yaml --segments 2")
    assert (config.task.segments, config.seed, config.task.name) == (2, 5, "reverse")
    assert config.optimizer.lr == 1e-4
    assert printed(capsys, "train copy --config mine.yaml").task.name == "copy"


def test_the_config_file_goes_before_the_recipe(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text("recipe: paper\nmodel: {dropout: 0.3}\n")
    config = printed(capsys, "train copy --config mine.yaml")
    assert (config.model.dropout, config.model.norm) == (0.3, "post")


@pytest.mark.parametrize("short", ALIASES)
def test_a_short_form_sets_what_its_dotted_name_sets(capsys, short):
    value = {
        "model": "transformer_xl",
        "depth": "1",
        "schedule": "chunked",
        "target": "0.5",
        "on_nan": "back",
        "recipe": "paper",
        "size": "paper",
        "device": "cpu",
        "compile": "off",
        "lr": "0.002",
        "matrix_lr": "0.002",
    }.get(short, "2")
    context = {"cache": "--model transformer_xl_rmt", "schedule": "--depth 1"}.get(short, "")
    task = "copy"
    if short in ("data", "scale"):
        Path("book.txt").write_text("It was the best of times. " * 9)
        assert rmt(capsys, "data prepare book.txt").code == 0
        task, value = "text", {"data": "book.txt", "scale": "cpu"}[short]
        context = {"data": "", "scale": "--data book.txt --size enwik8-base"}[short]
    config = printed(capsys, f"train {task} {context} --{short} {value}")
    for part in ALIASES[short].split("."):
        config = getattr(config, part)
    assert str(config) == value


def test_memory_and_cache_are_as_long_as_a_segment_unless_named(capsys):
    config = printed(capsys, "train copy --length 8 --segments 3 --model transformer_xl_rmt")
    assert (config.model.memory.size, config.model.cache.size) == (8, 8)
    config = printed(capsys, "train copy --length 8 --segments 6 --model transformer_xl_rmt --memory 5")
    assert (config.model.memory.size, config.model.cache.size) == (5, 4)


def test_a_run_prints_lines_in_a_pipe_and_ends_with_its_result(capsys):
    code, out, err = rmt(capsys, f"{TRAIN} --out run")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines.pop(0) == "rmt  32-true on the CPU"
    assert [line.split("  ")[:2] for line in lines[:2]] == [["rmt", "step 2"], ["rmt", "step 4"]]
    assert lines[2] == "finished: run"
    assert lines[3].startswith("accuracy 0.")
    assert "on 12 test sequences" in lines[3]
    assert lines[4].startswith("4 steps, 16 samples, ")


def test_a_quiet_run_prints_its_result_only(capsys):
    code, out, err = rmt(capsys, f"{TRAIN} --out run --quiet")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "finished: run"
    assert len(out.splitlines()) == 3


def test_the_run_folder_has_what_the_contract_names(capsys, tmp_path):
    rmt(capsys, f"{TRAIN} --out run --quiet")
    run = tmp_path / "run"
    assert {path.name for path in run.iterdir()} == {
        "config.yaml",
        "vocabulary.json",
        "task.json",
        "metrics.jsonl",
        "result.json",
        "checkpoints",
    }
    last = (run / "checkpoints" / "last").read_text().strip()
    assert last == "step_4"
    assert (run / "checkpoints" / "best").exists()
    assert {path.name for path in (run / "checkpoints" / last).iterdir()} == {
        "model.safetensors",
        "optimizer.safetensors",
        "state.safetensors",
        "trainer.json",
    }
    assert set(json.loads((run / "checkpoints" / last / "trainer.json").read_text())["checksums"]) >= {
        "model",
        "optimizer",
        "state",
    }
    assert isinstance(package.load(run), package.SegmentModel)


def test_a_run_without_a_folder_gets_one_that_says_what_it_is(capsys, tmp_path):
    code, out, _ = rmt(capsys, f"{TRAIN} --quiet --seed 3")
    assert code == 0
    name = out.partition("\n")[0].removeprefix("finished: ")
    assert re.fullmatch(r"runs/tests\.train\.runs\.Echo-3-3-rmt-modern-\S+-memory2-\S+-steps4-3", name)
    assert (tmp_path / name / "result.json").exists()


def test_a_finished_run_says_so_and_is_not_touched(capsys, tmp_path):
    first = rmt(capsys, f"{TRAIN} --out run --quiet")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    code, out, err = rmt(capsys, f"{TRAIN} --out run --quiet")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["already finished: run", *first.out.splitlines()[1:]]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_restart_trains_anew(capsys, tmp_path):
    rmt(capsys, f"{TRAIN} --out run --quiet")
    (tmp_path / "run" / "notes.txt").write_text("of the first time")
    code, out, _ = rmt(capsys, f"{TRAIN} --out run --quiet --restart --steps 3")
    assert code == 0
    assert out.startswith("finished: run\n")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 3
    assert not (tmp_path / "run" / "checkpoints" / "step_4").exists()
    assert (tmp_path / "run" / "notes.txt").read_text() == "of the first time"


def test_restart_of_nothing_is_a_start(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet --restart").code == 0


def test_an_interrupted_run_says_how_to_go_on_and_does(capsys, monkeypatch):
    def interrupt(self: object, record: dict) -> None:
        if record["step"] == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(progress.Lines, "logged", interrupt)
        code, _, err = rmt(capsys, f"{TRAIN} --out run")
    assert (code, err) == (130, "rmt: interrupted; a run goes on with the same command\n")
    code, out, _ = rmt(capsys, f"{TRAIN} --out run")
    assert code == 0
    assert out.startswith("rmt  resuming at step 2\nrmt  32-true on the CPU\n")


def test_divergence_is_exit_code_1_and_one_line(capsys, monkeypatch):
    real = objective.loss
    monkeypatch.setattr(objective, "loss", lambda *inputs: real(*inputs) * torch.nan)
    code, out, err = rmt(capsys, f"{TRAIN} --out run --quiet")
    assert (code, out) == (1, "")
    assert err.startswith("rmt: loss=nan at step 1: training diverged;")
    assert err.count("\n") == 1


def test_a_task_of_ones_own_trains_from_the_command_line(capsys, tmp_path, monkeypatch):
    (tmp_path / "my_tasks.py").write_text(OWN_TASK)
    monkeypatch.setattr(sys, "path", list(sys.path))
    command = (
        "train my_tasks:Parity --segments 2 --memory 1 --steps 3 --batch 4 --device cpu --out run --quiet "
        "--task.options bits=6 --train.evaluate_samples 8"
    )
    try:
        code, _, err = rmt(capsys, command)
        assert (code, err) == (0, "")
        result = json.loads((tmp_path / "run" / "result.json").read_text())
        assert result["task"] == "parity"
        assert result["config"]["task"]["options"] == {"bits": 6}
        assert result["config"]["model"]["vocabulary"] == 2
        assert result["metrics"]["samples"] == 12
        assert rmt(capsys, "evaluate run").code == 0
    finally:
        sys.modules.pop("my_tasks", None)
