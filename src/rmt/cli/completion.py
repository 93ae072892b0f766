"""`rmt completion bash|zsh|fish`: a script that completes commands, flags and their values in a shell."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rmt.cli import flags
from rmt.cli.front import Command, Options
from rmt.cli.help import literals
from rmt.cli.main import COMMANDS as ABOUT
from rmt.config import required
from rmt.tasks.registry import TASKS

EXAMPLES = """examples:
  source <(rmt completion bash)                                        in ~/.bashrc
  source <(rmt completion zsh)                                         in ~/.zshrc, behind compinit
  rmt completion zsh > FOLDER/_rmt                                     or so, in a folder of $fpath
  rmt completion fish > ~/.config/fish/completions/rmt.fish"""
GROUP = "data"  # the one command that has commands of its own
# whether the words before the cursor are rmt and these, and whether they begin so
FISH_FUNCTIONS = """function __rmt_behind
  set -l words (commandline -opc)
  test "$words[2..]" = "$argv"
end
function __rmt_within
  set -l words (commandline -opc)
  set -l last (math (count $argv) + 1)
  test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end"""


@dataclass(frozen=True, kw_only=True)
class CompletionOptions(Options):
    """The options of `rmt completion`."""

    shell: Literal["bash", "zsh", "fish"] = required("for which shell", argument="SHELL")


COMMAND = Command(
    "completion",
    "Print a script that completes commands, flags and their values; it starts nothing of rmt.",
    EXAMPLES,
    CompletionOptions,
)


class CommandWords(NamedTuple):
    """What can stand behind a command."""

    name: str  # such as "train" or "data show"
    flags: dict[str, list[str]]  # each with the words it takes; none = anything
    helps: dict[str, str]  # what each flag means
    arguments: list[str]  # words for what has no flag; none = files


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    scripts = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    print(scripts[options.shell](list(all_words())))
    return 0


def all_words() -> Iterator[CommandWords]:
    """The words of every command, from its dataclasses."""
    for name in ABOUT:
        module = importlib.import_module(f"rmt.cli.{name}")
        for command in getattr(module, "COMMANDS", None) or (module.COMMAND,):
            yield words_of(command)


def words_of(command: Command[Any]) -> CommandWords:
    grammar = command.grammar()
    taken = {
        flag: [] if flags.is_switch(leaf) else literals(leaf) for flag, leaf in sorted(grammar.flags.items())
    }
    helps = {flag: leaf.help for flag, leaf in grammar.flags.items()}
    tasks = [leaf for leaf in grammar.arguments if leaf.argument == "TASK"]
    words = [word for leaf in grammar.arguments for word in literals(leaf)]
    return CommandWords(command.name, taken, helps, [*TASKS] if tasks else words)


def nested(commands: Sequence[CommandWords]) -> str:
    """The commands of the one command that has some."""
    return " ".join(command.name.split()[1] for command in commands if command.name.startswith(f"{GROUP} "))


def cases(commands: Sequence[CommandWords], form: str) -> str:
    """A line for each flag that takes words, with the `form` of a shell's case."""
    return "\n".join(
        form.format(pattern=f"'{command.name} {flag}'", words=" ".join(words))
        for command in commands
        for flag, words in command.flags.items()
        if words
    )


def bash_script(commands: Sequence[CommandWords]) -> str:
    values = cases(commands, '    {pattern}) COMPREPLY=($(compgen -W "{words}" -- "$word")); return ;;')
    options = "\n".join(f"    '{command.name}') flags='{' '.join(command.flags)}' ;;" for command in commands)
    arguments = "\n".join(
        f"    '{command.name}') words='{' '.join(command.arguments)}' ;;"
        for command in commands
        if command.arguments
    )
    return f"""_rmt() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" flags='' words=''
  local name="${{COMP_WORDS[1]}}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ] || {{ [ "$COMP_CWORD" -eq 2 ] && [ "$name" = help ]; }}; then
    COMPREPLY=($(compgen -W "{" ".join([*ABOUT, "help"])}" -- "$word")); return
  fi
  if [ "$name" = {GROUP} ]; then
    if [ "$COMP_CWORD" -eq 2 ]; then
      COMPREPLY=($(compgen -W "{nested(commands)}" -- "$word")); return
    fi
    name="$name ${{COMP_WORDS[2]}}"
  fi
  case "$name $before" in
{values}
  esac
  case "$name" in
{options}
  esac
  case "$name" in
{arguments}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _rmt rmt"""


def zsh_script(commands: Sequence[CommandWords]) -> str:
    values = cases(commands, "    ({pattern}) compadd -- {words}; return ;;")
    options = "\n".join(
        f"    ('{command.name}') flags=({' '.join(command.flags)}) words_=({' '.join(command.arguments)}) ;;"
        for command in commands
    )
    return f"""#compdef rmt
_rmt() {{
  local name="${{words[2]}}"
  local -a flags words_
  if (( CURRENT == 2 )) || {{ (( CURRENT == 3 )) && [[ $name == help ]]; }}; then
    compadd -- {" ".join([*ABOUT, "help"])}; return
  fi
  if [[ $name == {GROUP} ]]; then
    if (( CURRENT == 3 )); then compadd -- {nested(commands)}; return; fi
    name="$name ${{words[3]}}"
  fi
  case "$name ${{words[CURRENT-1]}}" in
{values}
  esac
  case "$name" in
{options}
  esac
  if [[ ${{words[CURRENT]}} == -* ]]; then compadd -- $flags; return; fi
  (( $#words_ )) && compadd -- $words_
  _files
}}
if [[ $funcstack[1] == _rmt ]]; then _rmt "$@"; else compdef _rmt rmt; fi"""


def fish_script(commands: Sequence[CommandWords]) -> str:
    about = {**ABOUT, "help": "the commands, or one of them"}
    lines = [FISH_FUNCTIONS]
    lines += [f"complete -c rmt -n __rmt_behind -xa {name} -d {quoted(text)}" for name, text in about.items()]
    lines.append(f"complete -c rmt -n '__rmt_behind help' -xa '{' '.join(ABOUT)}'")
    lines.append(f"complete -c rmt -n '__rmt_behind {GROUP}' -xa '{nested(commands)}'")
    for command in commands:
        lines += fish_lines(command)
    return "\n".join(lines)


def fish_lines(command: CommandWords) -> Iterator[str]:
    """The flags and words of one command."""
    within = f"complete -c rmt -n '__rmt_within {command.name}'"
    if command.arguments:
        yield f"{within} -a '{' '.join(command.arguments)}'"
    for flag, words in command.flags.items():
        kind = "-l" if flag.startswith("--") else "-s"
        taken = f" -xa '{' '.join(words)}'" if words else ""
        yield f"{within} {kind} {flag.lstrip('-')}{taken} -d {quoted(command.helps[flag])}"


def quoted(text: str) -> str:
    """A text as one word of fish."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
