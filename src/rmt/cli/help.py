"""The help of a command: usage, every field with its values and its default, examples."""

from __future__ import annotations

import dataclasses
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from rmt.cli import flags
from rmt.config import Leaf, choices

if TYPE_CHECKING:
    from rmt.cli.front import Command

COLUMN = 30  # where the texts begin
WIDEST = 110  # columns of a page, as in the source


def page(command: Command[Any], front: Iterable[Leaf]) -> str:
    """All that `--help` prints."""
    fields = list(command.leaves())
    arguments = [leaf for leaf in fields if leaf.argument]
    words = [usage_word(leaf) for leaf in arguments]
    sections = {
        "arguments": [line(leaf.argument, text_of(leaf)) for leaf in arguments],
        "options": [flag_line(command, leaf) for leaf in (*fields, *front) if is_plain(command, leaf)],
        "usual settings (--print_config shows the defaults that vary by recipe, size, task and model)": list(
            alias_lines(command, fields)
        ),
        "further settings": [flag_line(command, leaf) for leaf in fields if is_further(command, leaf)],
    }
    blocks = [" ".join(["usage:", command.call, *words, "[OPTIONS]"]), command.about]
    blocks += ["\n".join([f"{title}:", *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join(block for block in (*blocks, command.appendix(), command.examples) if block)


def usage_word(leaf: Leaf) -> str:
    name = f"{leaf.argument} ..." if flags.is_list(leaf) else leaf.argument
    return name if leaf.default is dataclasses.MISSING else f"[{name}]"


def is_plain(command: Command[Any], leaf: Leaf) -> bool:
    """Whether a field has a flag and belongs to no table of short forms."""
    return not (leaf.argument or "." in leaf.name or is_usual(command, leaf.name))


def is_further(command: Command[Any], leaf: Leaf) -> bool:
    return "." in leaf.name and not (leaf.argument or is_usual(command, leaf.name))


def is_usual(command: Command[Any], name: str) -> bool:
    return any(long == name and len(short) > 1 for short, long in command.aliases.items())


def alias_lines(command: Command[Any], fields: Sequence[Leaf]) -> Iterator[str]:
    """The short forms, each with the dotted name that it stands for."""
    by_name = {leaf.name: leaf for leaf in fields}
    for short, name in command.aliases.items():
        if len(short) > 1:
            long = f" ({name})" if name != short else ""
            leaf = by_name[name]
            yield line(f"--{short}{meta(leaf, short)}", text_of(leaf, command.varying) + long)


def flag_line(command: Command[Any], leaf: Leaf) -> str:
    letters = [
        f"-{short}, " for short, name in command.aliases.items() if name == leaf.name and len(short) == 1
    ]
    return line(f"{''.join(letters)}--{leaf.name}{meta(leaf)}", text_of(leaf, command.varying))


def text_of(leaf: Leaf, varying: Sequence[str] = ()) -> str:
    """What a field means, and its default if there is one to tell."""
    if leaf.name in varying:
        return f"{leaf.help} (default: varies)"
    untold = leaf.default in (dataclasses.MISSING, None, "", (), {}) or flags.is_switch(leaf)
    return leaf.help if untold else f"{leaf.help} (default: {flags.spelled(leaf.default)})"


def line(name: str, text: str) -> str:
    """A name and its text beside it, or below it where the name is long."""
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    rows = textwrap.wrap(text, max(24, width - COLUMN), break_long_words=False, break_on_hyphens=False)
    start = f"  {name}"
    if len(start) > COLUMN - 2:
        rows.insert(0, start)
    elif rows:
        rows[0] = f"{start:{COLUMN}}{rows[0]}"
    return "\n".join([rows[0], *(" " * COLUMN + row for row in rows[1:])]) if rows else start


def literals(leaf: Leaf) -> list[str]:
    """The words that a flag takes."""
    if leaf.type is bool:
        return ["true", "false"]
    kinds = (kind for kind in choices(leaf.type) if get_origin(kind) is Literal)
    return [str(word) for kind in kinds for word in get_args(kind)]


def meta(leaf: Leaf, short: str = "") -> str:
    """The values that a flag takes, or their name."""
    if flags.is_switch(leaf):
        return ""
    if flags.is_mapping(leaf):
        return " KEY=VALUE"
    words = literals(leaf)
    is_open = any(kind in (int, float, str) or get_origin(kind) is tuple for kind in choices(leaf.type))
    named = [(short or leaf.name.rsplit(".", 1)[-1]).upper()] if is_open else []
    text = "|".join(named + words)
    return f" [{text}]" if leaf.bare is not None else f" {text}"
