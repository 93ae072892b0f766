"""What the test of the architecture looks for is seen however it is written."""

import ast

import pytest

from tests.source import assigned_names, commands_named


@pytest.mark.parametrize(
    "code",
    [
        'run([sys.executable, "-m", "rmt.cli.main", "train", "copy"])',
        'run("python -m rmt.cli.main train copy", shell=True)',
        'run(f"python -m rmt.cli.{name}", shell=True)',
        'import_module("rmt.cli.train").main([])',
        'run(["rmt", "train", "copy"])',
        'run(("rmt", *arguments))',
        'run(["/usr/bin/rmt", "train"])',
        'run(["python", "-m", "rmt", "train"])',
        'os.execvp("rmt", arguments)',
        'run("rmt train copy", shell=True)',
    ],
)
def test_a_call_of_the_command_is_seen_however_it_is_written(code):
    assert list(commands_named(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        '"""Trains as `rmt train copy` does, by rmt.cli."""',
        'run([sys.executable, "-m", "rmt.experiments.worker", str(settings)])',
        'log.error("rmt: %s", error)',
        'raise RMTError("use rmt data list")',
        'directory / "rmt"',
        'MODELS = ("rmt", "transformer_xl_rmt")',
    ],
)
def test_a_mention_of_the_command_is_no_call(code):
    assert not list(commands_named(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "one = 1",
        "first, (one, *rest) = row",
        "one: int = 1",
        "one += 1",
        "self.one = 1",
        "if one := search(): pass",
        "for one in rows: pass",
        "total = sum(one for one in rows)",
        "with opened() as one: pass",
        "try: pass\nexcept OSError as one: pass",
        "def work(one): pass",
        "def work(*, one=1): pass",
        "def work(*one): pass",
        "key = lambda one: one.size",
    ],
)
def test_a_pronoun_is_seen_wherever_it_is_bound(code):
    assert "one" in assigned_names(ast.parse(code))
