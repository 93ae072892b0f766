"""The command line of a configuration: every dotted name is an option, the usual ones have a short form."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from rmt.config import Leaf, choices, leaves, parse, read_yaml, typed, write_yaml
from rmt.errors import ConfigError, unknown
from rmt.train.config import RunConfig
from rmt.train.stored import read_settings

# short form: dotted name. A closed table: every other setting has its dotted name only.
ALIASES = {
    "model": "preset",
    "data": "task.data",
    "segments": "task.segments",
    "length": "task.length",
    "memory": "model.memory.size",
    "cache": "model.cache.size",
    "depth": "bptt.depth",
    "schedule": "bptt.schedule",
    "batch": "train.batch",
    "steps": "train.steps",
    "target": "train.target",
    "recipe": "recipe",
    "size": "size",
    "scale": "scale",
    "seed": "seed",
    "device": "device",
    "compile": "compile",
}


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one line, as a `ConfigError`."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; the first that is unknown is an error that names the nearest option."""
        arguments, rest = self.parse_known_args(args, namespace)
        if not rest:
            return arguments
        near = difflib.get_close_matches(rest[0].partition("=")[0], self._option_string_actions, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"see {self.prog} --help"
        raise ConfigError(f"unknown argument {rest[0]!r}; {remedy}")

    def error(self, message: str) -> Any:
        raise ConfigError(f"{message}; see {self.prog} --help")


def command(prog: str, description: str, examples: str) -> Parser:
    """The parser of a command with a handful of options, which a YAML file can give, too."""
    parser = Parser(
        prog=prog,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_config_file(parser, "options from a YAML file; the command line goes first")
    return parser


def add_config_file(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--config", metavar="FILE", help=help)
    parser.add_argument("--print_config", action="store_true", help="print the whole configuration and exit")


def parsed(parser: Parser, argv: Sequence[str]) -> argparse.Namespace | None:
    """The arguments of a `command`, or nothing after printing them for --print_config."""
    arguments = parser.parse_args(argv)
    if arguments.config:
        values, known = read_yaml(arguments.config), vars(arguments).keys() - {"config", "print_config"}
        for name, value in values.items():
            if name not in known:
                raise unknown("key", str(name), known)
            if isinstance(value, (dict, list)):
                raise ConfigError(f"{name}={value!r} in {arguments.config!r} must be one value")
        parser.set_defaults(**values)
        arguments = parser.parse_args(argv)
    if arguments.print_config:
        values = {
            name: value for name, value in vars(arguments).items() if name not in ("config", "print_config")
        }
        print(write_yaml(values), end="")
        return None
    return arguments


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for every field of `RunConfig`, short forms first."""
    by_name = {leaf.name: leaf for leaf in leaves(RunConfig)}
    usual = parser.add_argument_group("usual settings")
    for short, name in ALIASES.items():
        long = f" ({name})" if name != short else ""
        help = text(by_name[name]) + long
        usual.add_argument(f"--{short}", dest=name, metavar=meta(by_name[name]), help=help)
    rest = parser.add_argument_group("further settings")
    for leaf in by_name.values():
        if leaf.name not in ("task.name", "task.options", *ALIASES):
            shown_above = leaf.name in ALIASES.values()
            help = argparse.SUPPRESS if shown_above else text(leaf)
            rest.add_argument(f"--{leaf.name}", dest=leaf.name, metavar=meta(leaf), help=help)
    rest.add_argument(
        "--task.options",
        dest="task.options",
        metavar="KEY=VALUE",
        action="append",
        help="an option of the task",
    )
    add_config_file(parser, "settings from a YAML file; the command line goes first")


def text(leaf: Leaf) -> str:
    return leaf.help.replace("%", "%%")


def meta(leaf: Leaf) -> str:
    """The values an option takes, or their name."""
    literals = [
        str(value)
        for choice in choices(leaf.type)
        if get_origin(choice) is Literal
        for value in get_args(choice)
    ]
    others = [leaf.name.rsplit(".", 1)[-1].upper()] if int in choices(leaf.type) or not literals else []
    return "|".join(others + literals)


def settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The nested settings of a command line: its config file, overlaid with its options."""
    nested = typed(RunConfig, read_settings(arguments.config)) if arguments.config else {}
    types = {leaf.name: leaf for leaf in leaves(RunConfig)}
    for name, value in vars(arguments).items():
        if value is None or name not in types:
            continue
        if name == "task.options":
            value = nested.get("task", {}).get("options", {}) | dict(pair(item) for item in value)
        elif isinstance(value, str):
            value = parse(value, types[name].type, shown(name))
        put(nested, name, value)
    return nested


def shown(name: str) -> str:
    """A dotted name as the user typed it."""
    return next((short for short, long in ALIASES.items() if long == name), name)


def put(nested: dict[str, Any], name: str, value: Any) -> None:
    *groups, last = name.split(".")
    for group in groups:
        nested = nested.setdefault(group, {})
    nested[last] = value


def pair(item: str) -> tuple[str, Any]:
    """KEY=VALUE; a whole number or a number becomes one."""
    key, equals, value = item.partition("=")
    if not equals:
        raise ConfigError(f"task.options={item!r} is not KEY=VALUE, such as symbols=8")
    for kind in (int, float, bool):
        try:
            return key, parse(value, kind, key)
        except ConfigError:
            continue
    return key, value


def one_of(value: str, known: list[str], kind: str) -> str:
    """`value` if it is known, else the error naming the nearest."""
    if value not in known:
        raise unknown(kind, value, known)
    return value
