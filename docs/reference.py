"""The pages of the site that are made from the code: every command's options, every setting's meaning."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args, get_origin

from rmt.cli import flags
from rmt.cli.front import FRONT, Command
from rmt.cli.help import is_usual, meta
from rmt.cli.main import COMMANDS
from rmt.config import Leaf, choices, leaves

INTRODUCTION = """# Commands

Every option of every command, made from the same declarations as `rmt COMMAND --help` and the checks of
config files. Options with a dot are settings: they stand in groups in a file for `--config`. What
`--config FILE`, `--print_config` and `--help` do is the [same everywhere](training.md).
"""

FURTHER = {
    "finetune": ("rmt.cli.finetune_language",)
}  # the same command on other data, with options of its own


class OptionRow(NamedTuple):
    """An option as a table has it."""

    spelling: str  # as on the command line, with its values
    default: str
    text: str


def command_page() -> str:
    """The reference of all commands."""
    overview = ["| command | |", "|---|---|"]
    overview += [f"| [`rmt {name}`](#{anchor(name)}) | {text} |" for name, text in COMMANDS.items()]
    parts = [INTRODUCTION, "\n".join(overview)]
    for name, text in COMMANDS.items():
        parts.append(f"## rmt {name} {{ #{anchor(name)} }}\n\n{text[0].upper()}{text[1:]}.")
        parts += [command_section(command, name) for command in commands_of(name)]
    return "\n\n".join(parts) + "\n"


def commands_of(name: str) -> list[Command[Any]]:
    """A command, or the several that it has, such as `rmt data list` and `rmt data show`."""
    module = importlib.import_module(f"rmt.cli.{name}")
    several = list(getattr(module, "COMMANDS", None) or (module.COMMAND,))
    return several + [importlib.import_module(place).COMMAND for place in FURTHER.get(name, ())]


def anchor(name: str) -> str:
    return f"rmt-{name.replace(' ', '-')}"


def command_section(command: Command[Any], name: str) -> str:
    """Usage, options and examples of one command."""
    heading = f"### {command.call} {{ #{anchor(command.name)} }}\n\n" if command.name != name else ""
    rows = [row(command, leaf) for leaf in (*command.leaves(), *FRONT)]
    table = ["| option | default | meaning |", "|---|---|---|"]
    table += [f"| `{line.spelling}` | {line.default} | {cell(line.text)} |" for line in rows]
    examples = command.examples.removeprefix("examples:").strip("\n")
    shown = "\n".join(line.strip() for line in examples.splitlines())
    parts = [heading + command.about, "\n".join(table)]
    if further := command.appendix():
        parts.append(f"```text\n{further}\n```")
    return "\n\n".join([*parts, f"```bash\n{shown}\n```"])


def row(command: Command[Any], leaf: Leaf) -> OptionRow:
    """One option: an argument by its name, a flag by all its spellings."""
    if leaf.argument:
        several = " ..." if flags.is_list(leaf) else ""
        return OptionRow(leaf.argument + several, default_of(command, leaf), leaf.help)
    shorts = [short for short, name in command.aliases.items() if name == leaf.name]
    spellings = [f"--{short}" if len(short) > 1 else f"-{short}" for short in shorts]
    usual = next((short for short in shorts if len(short) > 1), "") if is_usual(command, leaf.name) else ""
    if f"--{leaf.name}" not in spellings:
        spellings.append(f"--{leaf.name}")
    return OptionRow(", ".join(spellings) + meta(leaf, usual), default_of(command, leaf), leaf.help)


def default_of(command: Command[Any], leaf: Leaf) -> str:
    if leaf.name in command.varying:
        return "varies"
    if leaf.default is dataclasses.MISSING:
        return "needed"
    empty = leaf.default in (None, "", (), {}) or flags.is_switch(leaf)
    return "" if empty else f"`{flags.spelled(leaf.default)}`"


def settings_table(location: str) -> str:
    """The fields of a dataclass at "module:Class", groups by their dotted names."""
    module, _, name = location.partition(":")
    cls = getattr(importlib.import_module(module), name)
    table = ["| field | values | default | meaning |", "|---|---|---|---|"]
    table += [f"| {' | '.join(setting_cells(leaf))} |" for leaf in leaves(cls)]
    return "\n".join(table)


def setting_cells(leaf: Leaf) -> Iterator[str]:
    yield f"`{leaf.name}`"
    yield f"`{'|'.join(chain.from_iterable(map(words, choices(leaf.type))))}`"
    yield "needed" if leaf.default is dataclasses.MISSING else f"`{leaf.default!r}`"
    yield cell(leaf.help)


def words(kind: Any) -> tuple[str, ...]:
    """The values that a kind has, or its name."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    return ("true", "false") if kind is bool else (getattr(kind, "__name__", str(kind)),)


def cell(text: str) -> str:
    """A text that can stand in a table."""
    return text.replace("|", "\\|")
