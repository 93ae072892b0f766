"""`rmt completion`, run for real where the shell is there, and `rmt help`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from rmt.cli.completion import all_words
from rmt.cli.main import COMMANDS
from tests.cli.command import rmt
from tests.cli.commands import all_commands
from tests.source import SOURCE

LINES = {
    "rmt tra": ["train"],
    "rmt hel": ["help"],
    "rmt help pl": ["plot"],
    "rmt data sh": ["show"],
    "rmt train copy --sched": ["--schedule"],
    "rmt train copy --schedule ": ["chunked", "sequence", "sliding"],
    "rmt train rev": ["reverse"],
    "rmt train memory": ["memory-qa"],
    "rmt train copy --model.memory.si": ["--model.memory.size"],
    "rmt plot demo --o": ["--out"],
    "rmt plot demo --st": [],  # an option of rmt demo
    "rmt data show copy --spl": ["--split"],
    "rmt data show copy --split te": ["test"],
    "rmt completion f": ["fish"],
    "rmt evaluate some-f": ["some-file.txt"],
}
# what zsh offers is printed between < and >, and behind it <>
ZSH_ASKED = """
autoload -Uz compinit && compinit -u -D
{begin}
compadd() {{
  [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\\ * ]] || {{
    local -a hits; builtin compadd -O hits "$@"; print -rl -- "<"${{^hits}}">"
  }}
  builtin compadd "$@"
}}
asked() {{ _main_complete; print "<>" }}
zle -C asked complete-word asked
bindkey "^I" asked
"""
ZSH_TERMINAL = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source asked.zsh"
for typed; do
  zpty -w -n shell $typed$'\\t'
  while zpty -r shell line && [[ $line != *"<>"* ]]; do
    [[ $line == *"<"*">"* ]] && print -r -- ${${line##*<}%%>*}
  done
  print -r -- "=="
  zpty -w -n shell $'\\C-u'
done
zpty -d shell
"""
BASH_ASKED = """
for typed; do
  IFS=' ' read -ra COMP_WORDS <<< "$typed"; [[ $typed == *' ' ]] && COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _rmt; printf '%s\\n' "${COMPREPLY[@]}" ==
done
"""
FISH_ASKED = "source rmt.fish; for typed in $argv; complete -C $typed; echo ==; end"


def offered_by_bash(lines: Iterable[str]) -> list[list[str]]:
    return offers("bash", "--norc", "-c", f"source rmt.bash\n{BASH_ASKED}", "bash", *lines)


def offered_by_fish(lines: Iterable[str]) -> list[list[str]]:
    return offers("fish", "--no-config", "-c", FISH_ASKED, *lines)


def offered_by_zsh(lines: Iterable[str], begin: str = "source rmt.zsh") -> list[list[str]]:
    """In a terminal of its own, since zsh completes nowhere else."""
    Path("asked.zsh").write_text(ZSH_ASKED.format(begin=begin))
    return offers("zsh", "-f", "-c", ZSH_TERMINAL, "zsh", *lines)


def offers(*words: str) -> list[list[str]]:
    """What a shell has printed for each line, without descriptions."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    parts = done.stdout.split("==\n")[:-1]
    return [sorted(text.partition("\t")[0] for text in part.split("\n") if text) for part in parts]


OFFERED = {"bash": offered_by_bash, "zsh": offered_by_zsh, "fish": offered_by_fish}


@pytest.fixture(params=OFFERED)
def shell(request, tmp_path, monkeypatch) -> str:
    """A shell, with its script in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("some-file.txt").write_text("")
    name, heavy = request.param, {"torch", "numpy", "transformers"}
    code = f"from rmt.cli.main import main; main(['completion', '{name}'])"
    loaded = f"{code}; import sys; print('#', *{heavy} & {{*sys.modules}})"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "#"  # nothing heavy is loaded
    Path(f"rmt.{name}").write_text(done.stdout)
    if not shutil.which(name):
        pytest.skip(f"needs {name}")
    return name


def test_a_shell_completes_commands_flags_values_tasks_and_files(shell):
    assert dict(zip(LINES, OFFERED[shell](LINES), strict=True)) == LINES


@pytest.mark.parametrize("shell", ["zsh"], indirect=True)
def test_zsh_takes_the_script_from_a_folder_of_its_functions_too(shell):
    Path("rmt.zsh").rename("_rmt")
    assert offered_by_zsh(["rmt tra"], "fpath=($PWD $fpath); compinit -u -D") == [["train"]]


def test_every_flag_of_every_command_is_completed():
    words = {command.name: command for command in all_words()}
    for name, command in all_commands().items():
        assert set(words[name].flags) == set(command.grammar().flags)


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
