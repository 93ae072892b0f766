"""Every command explains itself, with examples."""

import pytest

from rmt import __version__
from rmt.cli.main import COMMANDS
from tests.cli.command import rmt


@pytest.mark.parametrize("command", [*COMMANDS, "data list", "data show"])
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


def test_the_help_of_train_has_the_text_of_every_setting(capsys):
    from rmt.config import leaves
    from rmt.train.config import RunConfig

    text = " ".join(rmt(capsys, "train --help").out.split())
    for leaf in leaves(RunConfig):
        if leaf.name not in ("task.name", "task.options"):
            assert leaf.help
            assert " ".join(leaf.help.split()) in text
