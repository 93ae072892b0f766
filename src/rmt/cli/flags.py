"""A command line as settings: every word is a field's value, or an error that names the nearest."""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_origin

from rmt.config import Leaf, admit, parse
from rmt.errors import ConfigError, shown


class Grammar(NamedTuple):
    """What the words of a command line can be."""

    flags: Mapping[str, Leaf]  # by their spelling, such as "--optimizer.lr" and "--lr"
    arguments: Sequence[Leaf]  # given without a flag, in this order; the last may be many
    help: str  # the command that explains it all


class Word(NamedTuple):
    """A field's value, and how it was spelled."""

    leaf: Leaf
    spelling: str  # empty for an argument
    value: Any


def settings(grammar: Grammar, argv: Sequence[str]) -> dict[str, Any]:
    """The values of a command line by their dotted names; two values of one field are an error."""
    words: dict[str, Word] = {}
    for word in scan(grammar, argv):
        name = word.leaf.name
        words[name] = combine(words[name], word) if name in words else word
    return {name: word.value for name, word in words.items()}


def scan(grammar: Grammar, argv: Sequence[str]) -> Iterator[Word]:
    """Every flag with its value, then the arguments."""
    rest, arguments = deque(argv), list[str]()
    while rest:
        text = rest.popleft()
        if text == "--":
            arguments += rest
            break
        if text == "-" or not text.startswith("-"):
            arguments.append(text)
            continue
        spelling, equals, value = text.partition("=")
        if spelling not in grammar.flags:
            raise unknown_word(grammar, text)
        leaf = grammar.flags[spelling]
        yield flagged(leaf, spelling, value) if equals else next_value(grammar, spelling, rest)
    yield from assigned(grammar, arguments)


def flagged(leaf: Leaf, spelling: str, text: str) -> Word:
    """The value of a flag, typed and within its bounds."""
    name = spelling.lstrip("-")
    if is_mapping(leaf):
        return Word(leaf, spelling, dict([pair(text, name)]))
    value = parse(text, leaf.type, name)
    admit(value, leaf.default, leaf.within, name)
    return Word(leaf, spelling, value)


def next_value(grammar: Grammar, spelling: str, rest: deque[str]) -> Word:
    """The value of a flag in the words behind it; a switch takes none, and some flags can stand alone."""
    leaf = grammar.flags[spelling]
    if is_switch(leaf):
        return Word(leaf, spelling, True)
    if rest and not rest[0].startswith("--") and rest[0] not in grammar.flags:
        return flagged(leaf, spelling, rest.popleft())
    if leaf.bare is not None:
        return Word(leaf, spelling, leaf.bare)
    raise ConfigError(f"{spelling} expected one argument: {leaf.help}; see {grammar.help}")


def assigned(grammar: Grammar, texts: Sequence[str]) -> Iterator[Word]:
    """The words without a flag as the fields that they stand for."""
    rest = deque(texts)
    for leaf in grammar.arguments:
        if not rest:
            return
        value = tuple(rest) if is_list(leaf) else parse(rest.popleft(), leaf.type, leaf.argument)
        admit(value, leaf.default, leaf.within, leaf.argument)
        yield Word(leaf, "", value)
        if is_list(leaf):
            return
    if rest:
        raise unknown_word(grammar, rest[0])


def combine(first: Word, second: Word) -> Word:
    """Both as one, if they agree."""
    if is_mapping(first.leaf):
        keys = first.value.keys() & second.value.keys()
        if all(first.value[key] == second.value[key] for key in keys):
            return second._replace(value=first.value | second.value)
    if first.value == second.value:
        return first
    spellings = f"{first.spelling} {spelled(first.value)} and {second.spelling} {spelled(second.value)}"
    raise ConfigError(f"{spellings} are two values of {first.leaf.name}; leave one out")


def spelled(value: Any) -> str:
    """A value as it could stand on a command line."""
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def pair(text: str, name: str) -> tuple[str, str]:
    """KEY=VALUE; of which type the value is, whoever knows the key says."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"{name}={shown(text)} is not KEY=VALUE, such as symbols=8")
    return key, value


def unknown_word(grammar: Grammar, text: str) -> ConfigError:
    """The error for a word that means nothing, naming the nearest flag."""
    near = difflib.get_close_matches(text.partition("=")[0], grammar.flags, n=1)
    remedy = f"did you mean {near[0]!r}?" if near and near[0] != text else f"see {grammar.help}"
    return ConfigError(f"unknown argument {shown(text)}; {remedy}")


def is_switch(leaf: Leaf) -> bool:
    """Whether a flag stands alone, or has its value behind an equals sign; dotted settings take a value."""
    return leaf.type is bool and "." not in leaf.name


def is_list(leaf: Leaf) -> bool:
    return get_origin(leaf.type) is tuple


def is_mapping(leaf: Leaf) -> bool:
    return get_origin(leaf.type) is dict
