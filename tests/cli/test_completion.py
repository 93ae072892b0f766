"""`rmt completion`, run for real where the shell is there, and `rmt help`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rmt.cli.completion import all_words
from rmt.cli.main import COMMANDS
from tests.cli.command import rmt
from tests.cli.commands import all_commands
from tests.source import SOURCE


def completed(script: str, line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    *words, last = line.split(" ")
    listed = " ".join(f"'{word}'" for word in [*words, last])
    ask = f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}; _rmt; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    code = f"{script}\n{ask}"
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture(scope="module")
def script():
    code = "from rmt.cli.main import main; main(['completion', 'bash'])"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    heavy = {"torch", "numpy", "transformers"}
    loaded = f"{code}; import sys; print('#', *{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "#"  # nothing heavy is loaded
    return done.stdout


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rmt tra", ["train"]),
        ("rmt help pl", ["plot"]),
        ("rmt data sh", ["show"]),
        ("rmt train copy --sched", ["--schedule"]),
        ("rmt train copy --schedule ", ["sequence", "chunked", "sliding"]),
        ("rmt train rev", ["reverse"]),
        ("rmt train memory", ["memory-qa"]),
        ("rmt train copy --model.memory.si", ["--model.memory.size"]),
        ("rmt data show copy --spl", ["--split"]),
        ("rmt data show copy --split te", ["test"]),
        ("rmt completion f", ["fish"]),
        ("rmt evaluate some-f", ["some-file.txt"]),
    ],
)
def test_bash_completes_commands_flags_values_tasks_and_files(script, line, offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("some-file.txt").write_text("")
    assert completed(script, line) == offered


def test_every_flag_of_every_command_is_completed():
    words = {command.name: command for command in all_words()}
    for name, command in all_commands().items():
        assert set(words[name].flags) == set(command.grammar().flags)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_taken_by_them(capsys, shell, tmp_path):
    code, out, err = rmt(capsys, f"completion {shell}")
    assert (code, err) == (0, "")
    assert {"train", "plot", "completion"} <= set(re.findall(r"\w+", out))
    if shutil.which(shell):
        (tmp_path / "script").write_text(out)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_help_is_the_help_of_a_command(capsys):
    assert rmt(capsys, "help") == rmt(capsys, "--help")
    for name in ("train", "data", "data show"):
        assert rmt(capsys, f"help {name}") == rmt(capsys, f"{name} --help")
    assert rmt(capsys, "help trian").err == "rmt: unknown command 'trian'; did you mean 'train'?\n"
    assert "rmt help [COMMAND]" in rmt(capsys, "help").out


def test_the_first_page_names_every_command(capsys):
    out = rmt(capsys, "--help").out
    assert all(f"\n  {name} " in out for name in COMMANDS)


def test_the_help_of_training_names_every_task(capsys):
    from rmt.tasks.registry import TASKS

    arguments = rmt(capsys, "train --help").out.partition("\noptions:")[0]
    assert all(name in arguments for name in TASKS)


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_what_is_shown_is_as_long_as_what_is_trained_on(capsys, task):
    from tests.cli.command import printed

    shown = rmt(capsys, f"data show {task} --examples 1").out
    length = printed(capsys, f"train {task}").task.length
    assert shown == rmt(capsys, f"data show {task} --examples 1 --length {length}").out
