"""Every command explains itself, with examples."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rmt as package
from rmt import __version__
from rmt.cli.main import COMMANDS
from rmt.cli.training import VARYING
from rmt.config import leaves
from rmt.experiments.recipe import resolve
from rmt.precision import TO_TRAIN, TO_USE
from rmt.tasks.registry import TASKS, task_class
from rmt.train.config import RunConfig
from tests.cli.command import rmt
from tests.cli.commands import all_commands


@pytest.mark.parametrize("command", [*COMMANDS, *(name for name in all_commands() if " " in name)])
def test_the_help_of_a_command_shows_examples(capsys, command):
    code, out, err = rmt(capsys, f"{command} --help")
    assert (code, err) == (0, "")
    assert f"usage: rmt {command}" in out
    examples = out[out.index("examples:") :]
    assert f"rmt {command.split()[0]}" in examples


@pytest.mark.parametrize("command", ["", "--help", "-h"], ids=["nothing", "--help", "-h"])
def test_the_help_of_rmt_lists_all_commands(capsys, command):
    code, out, err = rmt(capsys, command)
    assert (code, err) == (0, "")
    assert out.startswith("usage: rmt COMMAND")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")][: len(COMMANDS)] == [
        *COMMANDS
    ]


def test_the_version_is_told(capsys):
    assert rmt(capsys, "--version") == (0, f"rmt {__version__}\n", "")


@pytest.mark.parametrize("command", ["train", "bench", "data show"])
def test_the_help_lists_the_options_of_every_task(capsys, command):
    text = " ".join(rmt(capsys, f"{command} --help").out.split())
    for name in TASKS:
        for field in dataclasses.fields(task_class(name)):
            assert f"{name}: {field.name} {field.metadata['help']}" in text
    assert "copy: length symbols in the input sequence (default: 24)" in text
    assert "retrieval: pairs key-value pairs in the input (default: 4)" in text
    assert "memory-qa: data folder with babi/ and books/ (no default)" in text


def test_a_default_that_is_told_is_the_default_of_every_recipe_size_model_and_kind_of_task(tmp_path):
    Path("book.txt").write_text("It was the best of times. " * 400)
    text = {"name": "text", "data": "book.txt"}
    settings = [
        {"task": {"name": "copy"}},
        {"task": {"name": "copy"}, "preset": "memory_transformer"},
        {"task": {"name": "copy"}, "preset": "transformer_xl_rmt", "recipe": "paper", "size": "paper"},
        {"task": {"name": "quadratic"}, "recipe": "paper", "size": "paper"},
        {"task": {"name": "retrieval"}},
        {"task": text},
        {"task": text, "preset": "transformer_xl_rmt", "recipe": "paper", "size": "wt103-base"},
        {"task": text, "recipe": "paper", "size": "enwik8-base"},
    ]
    varying = {"model.cutoffs"}  # by size, where a corpus has more than 20,000 words
    for named in settings:
        config, chosen = resolve(named), {"preset", "recipe", "size", "scale", "task.name", "task.data"}
        values = {leaf.name: value_of(config, leaf.name) for leaf in leaves(RunConfig)}
        varying |= {leaf.name for leaf in leaves(RunConfig) if values[leaf.name] != leaf.default} - chosen
    assert varying == set(VARYING)


def value_of(config, name):
    for part in name.split("."):
        config = getattr(config, part)
    return config


def test_no_page_of_help_loads_torch():
    lines = [[*name.split(), "--help"] for name in (*COMMANDS, *all_commands())]
    code = (
        f"import sys; from rmt.cli.main import main; codes = [main(line) for line in {lines!r}]; "
        "print(sum(codes), 'torch' in sys.modules, 'numpy' in sys.modules, 'transformers' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "0 False False False", done.stderr


@pytest.mark.parametrize(
    "command", ["train", "bench", "finetune", "evaluate", "stream", "generate", "predict"]
)
def test_precision_has_the_same_values_everywhere_and_auto_is_the_default(capsys, command):
    text = " ".join(rmt(capsys, f"{command} --help").out.split())
    assert "--precision auto|32-true|bf16-mixed|64-true number format; auto = " in text
    meaning = TO_TRAIN if command in ("train", "bench", "finetune") else TO_USE
    assert f"{meaning} (default: auto)" in text


def test_the_package_is_the_command():
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)}
    command = [sys.executable, "-m", "rmt", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, f"rmt {__version__}\n")


def test_the_help_of_train_has_the_text_of_every_setting(capsys):
    text = " ".join(rmt(capsys, "train --help").out.split())
    for leaf in leaves(RunConfig):
        assert leaf.help
        assert " ".join(leaf.help.split()) in text
