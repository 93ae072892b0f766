"""One front end for every command: options are a dataclass, from flags and YAML, printed and read back."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rmt.cli import flags
from rmt.cli.help import page
from rmt.config import Leaf, build, check_fields, leaves, option, to_dict, typed, value_in
from rmt.errors import ConfigError, unknown
from rmt.yamlfile import load_yaml, parse_yaml, write_yaml

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a command: each value fits its declaration, also where one is built by hand."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class TrustOptions(Options):
    """The options of a command that opens what a stranger may have made."""

    trust: bool = option(
        False, "let code run that a run folder, a config file or a backbone brings or names as module:Class"
    )


@dataclass(frozen=True, kw_only=True)
class FrontOptions(Options):
    """What every command understands beside its own options."""

    config: str | None = option(
        None, "a YAML file with options, - = standard input; the command line goes first"
    )
    print_config: bool = option(False, "print the whole configuration, which --config takes, and exit")
    help: bool = option(False, "print this page and exit (-h)")


def as_written(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return values


FRONT = tuple(leaves(FrontOptions))


@dataclass(frozen=True)
class Invocation(Generic[T]):
    """What a user said: the options of a command, and the settings beside them that were named."""

    options: T
    settings: dict[str, Any]
    config: str | None  # the file that was named
    print_config: bool
    from_file: frozenset[str] = frozenset()  # dotted names of the settings that it alone has given
    replaced: Mapping[str, Any] = field(default_factory=dict)  # by name: its settings that the line changed

    def printed(self, config: Any = None) -> bool:
        """Whether the configuration was only to be printed, which is then done.

        `config` is what became of the settings; without it, those that were named are printed.
        """
        if self.print_config:
            values = to_dict(self.options) | (self.settings if config is None else to_dict(config))
            untrusted = {"trust": False} if "trust" in values else {}  # it is never a config file's to give
            print(write_yaml(values | untrusted), end="")
        return self.print_config


@dataclass(frozen=True)
class Command(Generic[T]):
    """A command: its name, its texts, its options, and maybe a nested configuration beside them."""

    name: str  # behind rmt, such as "data show"
    about: str
    examples: str
    options: type[T]
    settings: type | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)  # short form: dotted name
    arguments: Mapping[str, str] = field(default_factory=dict)  # dotted name of a setting: its NAME in usage
    varying: Sequence[str] = ()  # dotted names whose default depends on other settings
    appendix: Callable[[], str] = str  # further help
    unpack: Callable[[Mapping[str, Any], str], Mapping[str, Any]] = as_written  # settings of a config file

    @property
    def call(self) -> str:
        return f"rmt {self.name}"

    def leaves(self) -> Iterator[Leaf]:
        """All fields, the command's own first."""
        yield from leaves(self.options)
        for leaf in leaves(self.settings) if self.settings else ():
            name = self.arguments.get(leaf.name)
            yield leaf._replace(argument=name, default=dataclasses.MISSING) if name else leaf

    def parse(self, argv: Sequence[str]) -> T | None:
        """The options of a command line, or nothing where it asked for help or for its configuration."""
        invocation = self.collect(argv)
        return None if invocation is None or invocation.printed() else invocation.options

    def collect(self, argv: Sequence[str]) -> Invocation[T] | None:
        """What a command line and its config file say, checked; nothing where help was asked for."""
        if self.asks_for_help(argv):
            print(page(self, FRONT))
            return None
        line = flags.settings(self.grammar(), argv)
        front = {leaf.name: line.pop(leaf.name, leaf.default) for leaf in FRONT}
        values = self.file(front["config"]) if front["config"] is not None else {}
        in_file = {leaf.name for leaf in self.leaves() if has_value(values, leaf.name)}
        replaced = {name: value_in(values, name) for name in in_file & line.keys()}
        for name, value in line.items():
            put(values, name, value)
        self.require(values)
        names = names_of(self.options)
        options = build(self.options, {key: value for key, value in values.items() if key in names})
        settings = {key: value for key, value in values.items() if key not in names}
        if front["config"] == "-" and not front["print_config"]:
            refuse_second_input(options)
        from_file = frozenset(in_file - line.keys())
        return Invocation(options, settings, front["config"], front["print_config"], from_file, replaced)

    def asks_for_help(self, argv: Sequence[str]) -> bool:
        words = argv[: list(argv).index("--")] if "--" in argv else argv
        return "--help" in words or "-h" in words

    def grammar(self) -> flags.Grammar:
        """The flags and arguments of this command."""
        by_name = {leaf.name: leaf for leaf in (*self.leaves(), *FRONT)}
        spelled = {f"--{name}": leaf for name, leaf in by_name.items() if not leaf.argument}
        for short, name in self.aliases.items():
            spelled[f"--{short}" if len(short) > 1 else f"-{short}"] = by_name[name]
        arguments = [leaf for leaf in by_name.values() if leaf.argument]
        return flags.Grammar(spelled, arguments, f"{self.call} --help")

    def file(self, name: str) -> dict[str, Any]:
        """The settings in a config file."""
        return self.typed(self.unpack(config_file(name), name))

    def typed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The content of a config file: every key is a field, every value of its type."""
        parts = [part for part in (self.options, self.settings) if part is not None]
        homes = {name: part for part in parts for name in names_of(part)}
        checked: dict[str, Any] = {}
        for key, value in values.items():
            if key in self.aliases and key not in homes:
                raise ConfigError(f"unknown key {key!r}; did you mean {self.aliases[key]!r}?")
            if key not in homes:
                raise unknown("key", str(key), homes)
            checked |= typed(homes[key], {key: value})
        if checked.pop("trust", False):
            raise ConfigError("trust=True is a config file's own word; give --trust on the command line")
        return checked

    def require(self, values: Mapping[str, Any]) -> None:
        """Raise for a field that has no default and was not given."""
        for leaf in leaves(self.options):
            if leaf.default is dataclasses.MISSING and not has_value(values, leaf.name):
                verb = "are" if flags.is_list(leaf) else "is"
                raise ConfigError(
                    f"{leaf.argument or leaf.name} {verb} missing: {leaf.help}; see {self.call} --help"
                )


def names_of(cls: type) -> list[str]:
    """The fields of a dataclass, groups as one."""
    return list(dict.fromkeys(leaf.name.partition(".")[0] for leaf in leaves(cls)))


def config_file(name: str) -> dict[str, Any]:
    """The mapping in a YAML file, or in standard input."""
    if name != "-":
        return load_yaml(name)
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"config=- cannot be read ({error}); give YAML in UTF-8") from None
    return parse_yaml(text, "config=-, standard input,")


def refuse_second_input(options: Any) -> None:
    """Raise where standard input was the config file and should be something else, too."""
    for name, value in to_dict(options).items():
        if value == "-":
            raise ConfigError(
                f"{name}=- and config=- would both take standard input; name a file for one of them"
            )


def put(nested: dict[str, Any], name: str, value: Any) -> None:
    """Set a dotted name; what is a mapping itself is added to."""
    *groups, last = name.split(".")
    for group in groups:
        nested = nested.setdefault(group, {})
    nested[last] = {**nested.get(last, {}), **value} if isinstance(value, dict) else value


def has_value(nested: Mapping[str, Any], name: str) -> bool:
    """Whether a dotted name has a value that is not empty."""
    for part in name.split("."):
        if part not in nested:
            return False
        nested = nested[part]
    return nested not in ("", ())
