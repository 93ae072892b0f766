"""Configuration as frozen dataclasses: one text per field serves code, YAML and command line.

A field is declared with `option(default, "what it means", at_least(1))`, or with `required` where it has no
default. `from_dict` and `to_dict` convert nested dataclasses, `typed` checks settings that are not yet all
there, `leaves` lists their dotted names, `parse` makes a value of text.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cache, reduce
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from rmt.errors import ConfigError, shown, unknown

T = TypeVar("T")
field_types: Callable[[type], dict[str, Any]] = cache(typing.get_type_hints)  # of a dataclass
SCALAR = int | float | bool | str  # what a text can stand for where no declaration says it
BITS = 63  # of a whole number beside its sign, as in int64


class Interval(NamedTuple):
    """The finite numbers that a field may have; an end that is open is not one of them."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def admits(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return -math.inf < value < math.inf and above and below

    def __str__(self) -> str:
        if math.isfinite(self.low + self.high) and not (self.low_open or self.high_open):
            return f"{self.low} to {self.high}"
        low = f"{'above' if self.low_open else 'at least'} {self.low}"
        high = f"{'below' if self.high_open else 'at most'} {self.high}"
        ends = [text for text, end in ((low, self.low), (high, self.high)) if math.isfinite(end)]
        return " and ".join(ends) or "finite"


def at_least(low: float) -> Interval:
    """`low` and every finite number above it."""
    return Interval(low)


def above(low: float) -> Interval:
    """Every finite number above `low`, but not `low` itself."""
    return Interval(low, low_open=True)


def option(
    default: Any, help: str, within: Interval | None = None, *, argument: str = "", bare: Any = None
) -> Any:
    """A dataclass field with its one-line documentation, which is also the command line's help.

    `argument` names a field that is given without a flag; `bare` is the value of a flag that stands alone.
    """
    metadata = {"help": help, "within": within, "argument": argument, "bare": bare}
    if dataclasses.is_dataclass(default) or isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=lambda: copy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def required(help: str, *, argument: str = "") -> Any:
    """The same for a field that has no default."""
    return option(dataclasses.MISSING, help, argument=argument)


class Leaf(NamedTuple):
    """One settable value of a nested configuration."""

    name: str  # dotted, e.g. "model.memory.size"
    type: Any
    default: Any  # dataclasses.MISSING: there is none
    help: str = ""
    within: Interval | None = None
    argument: str = ""  # what stands for it in a usage line, if it is given without a flag
    bare: Any = None  # its value where a flag stands alone


def leaves(cls: type, prefix: str = "") -> Iterator[Leaf]:
    """Every settable value of a nested dataclass, depth first."""
    types_of = field_types(cls)
    for field in dataclasses.fields(cls):
        kind, name = types_of[field.name], prefix + field.name
        if dataclasses.is_dataclass(kind):
            yield from leaves(typing.cast(type, kind), name + ".")
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield Leaf(name, kind, default, **field.metadata)


def to_dict(config: Any) -> dict[str, Any]:
    """Nested plain dictionaries, ready for YAML and JSON."""
    return typing.cast(dict[str, Any], plain(dataclasses.asdict(config)))


def by_name(config: Any) -> dict[str, Any]:
    """All settings by their dotted names."""
    return {leaf.name: plain(value_of(config, leaf.name)) for leaf in leaves(type(config))}


def changed(config: Any) -> dict[str, Any]:
    """The settings that are not at their defaults, by their dotted names."""
    values = ((leaf, value_of(config, leaf.name)) for leaf in leaves(type(config)))
    return {leaf.name: plain(value) for leaf, value in values if value != leaf.default}


def value_of(config: Any, name: str) -> Any:
    """The value of a dotted name."""
    return reduce(getattr, name.split("."), config)


def value_in(settings: Mapping[str, Any], name: str) -> Any:
    """The value of a dotted name in nested dictionaries."""
    return reduce(lambda group, part: group[part], name.split("."), settings)


def plain(value: Any) -> Any:
    """The same with lists for tuples, which YAML does not have."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass `cls` from nested dictionaries; unknown keys and wrong types are errors."""
    return build(cls, typed(cls, values))


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass `cls` from nested dictionaries that were checked."""
    types_of = field_types(cls)
    groups = [key for key in values if dataclasses.is_dataclass(types_of[key])]
    return cls(**{**values, **{key: build(typing.cast(type, types_of[key]), values[key]) for key in groups}})


def typed(cls: type, values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Some settings of `cls`, nested, every key known, every value of its type and within its bounds."""
    types_of = field_types(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    checked = {}
    for key, value in values.items():
        if key not in fields:
            raise unknown("key", where + str(key), [where + name for name in fields])
        kind, name = types_of[key], where + key
        if dataclasses.is_dataclass(kind):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{name}={shown(value)} must be a group of settings, such as {name}.KEY")
            checked[key] = typed(typing.cast(type, kind), value, name + ".")
        else:
            is_number = isinstance(value, str) and float in choices(kind)  # YAML takes 1e-3 for text
            checked[key] = parse(value, kind, name) if is_number else check(value, kind, name)
            admit(checked[key], fields[key].default, fields[key].metadata.get("within"), name)
    return checked


def check(value: Any, kind: Any, name: str) -> Any:
    """`value` if it fits the annotation `kind` (whole numbers pass as floats), else an error."""
    for choice in choices(kind):
        if get_origin(choice) is tuple:
            if isinstance(value, (list, tuple)):
                return tuple(check(item, get_args(choice)[0], name) for item in value)
        elif get_origin(choice) is Literal:
            if value in get_args(choice) and not isinstance(value, bool):
                return value
        elif choice is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return value if is_huge(value) else float(value)
        elif isinstance(value, get_origin(choice) or choice) and (
            choice is bool or not isinstance(value, bool)
        ):
            return value
    raise misfit(value, kind, name)


def admit(value: Any, default: Any, bounds: Interval | None, name: str) -> None:
    """Raise for what fits the type of a field and is no value of it: a number beyond its bounds, no text."""
    inside(value, bounds, name)
    for text in value if isinstance(value, tuple) else (value,):
        if text == "" and default not in ("", dataclasses.MISSING):
            raise ConfigError(f"{name}='' is empty; give a text, or leave it out")
        if isinstance(text, str) and "\0" in text:
            raise ConfigError(f"{name}={shown(text)} has a character of value 0 in it; leave that out")


def inside(value: Any, bounds: Interval | None, name: str) -> None:
    """Raise for a number, also in a list, that is not finite, or not within the bounds of its field."""
    for number in value if isinstance(value, tuple) else (value,):
        if not isinstance(number, (int, float)) or isinstance(number, bool):
            continue
        if not (bounds or Interval()).admits(number):
            wanted = bounds if -math.inf < number < math.inf else "finite"
            raise ConfigError(f"{name}={shown(number)} must be {wanted}")
        if is_huge(number):
            raise ConfigError(f"{name}={shown(number)} must be within ±2^{BITS}")


def is_huge(number: float) -> bool:
    """Whether a whole number is beyond what arrays and generators of random numbers count in."""
    return isinstance(number, int) and number.bit_length() > BITS


def parse(text: str, kind: Any, name: str) -> Any:
    """One value from the command line, by the annotation of its field."""
    for choice in choices(kind):
        if choice is type(None) and text.lower() in ("none", "null"):
            return None
        if get_origin(choice) is tuple:
            return parse_items(text, choice, name)
        if get_origin(choice) is Literal and text in get_args(choice):
            return text
        if choice is bool and text.lower() in ("true", "false", "on", "off"):
            return text.lower() in ("true", "on")
        if choice is str:
            return text
        if choice in (int, float):
            try:
                return choice(text)
            except ValueError:
                continue
    raise misfit(text, kind, name)


def parse_items(text: str, kind: Any, name: str) -> tuple[Any, ...]:
    """The values of a list, with commas between them."""
    try:
        return tuple(parse(item, get_args(kind)[0], name) for item in text.split(",")) if text else ()
    except ConfigError:
        raise misfit(text, kind, name) from None


def misfit(value: Any, kind: Any, name: str) -> ConfigError:
    """The error for a value that is not of its field's type, naming the nearest choice if one is near."""
    known = sum((get_args(choice) for choice in choices(kind) if get_origin(choice) is Literal), ())
    near = difflib.get_close_matches(value, map(str, known), n=1) if isinstance(value, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"{name}={shown(value)} is not {describe(kind)}{hint}")


def choices(kind: Any) -> tuple[Any, ...]:
    """The members of a union annotation, or the annotation itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def describe(kind: Any) -> str:
    """An annotation in words a user understands."""
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "none"}
    lists = {int: "whole numbers, such as 2,4", float: "numbers, such as 0.5,2", str: "texts, such as [a, b]"}
    parts = []
    for choice in choices(kind):
        if get_origin(choice) is Literal:
            parts += [str(value) for value in get_args(choice)]
        elif get_origin(choice) is tuple:
            parts.append("a list of " + lists[get_args(choice)[0]])
        else:
            parts.append(words.get(choice, "a group of settings"))
    return " or ".join(parts) if len(parts) < 3 else "one of: " + ", ".join(parts)


def positive(name: str, value: float, *, zero: bool = False) -> None:
    """Raise unless `value` is above zero (or at least zero)."""
    inside(value, Interval(0, low_open=not zero), name)


def between(name: str, value: float, low: float, high: float, *, closed: bool = False) -> None:
    """Raise unless `low` <= `value` < `high` (or, closed, `low` < `value` <= `high`)."""
    inside(value, Interval(low, high, low_open=closed, high_open=not closed), name)


def check_fields(config: Any, group: str = "") -> None:
    """Raise for a field whose value does not fit its declaration, also in a dataclass built by hand."""
    kinds, where = field_types(type(config)), f"{group}." if group else ""
    for field in dataclasses.fields(config):
        value, kind, name = getattr(config, field.name), kinds[field.name], where + field.name
        if not dataclasses.is_dataclass(kind):
            check(value, kind, name)
            items = tuple(value) if isinstance(value, list) else value
            admit(items, field.default, field.metadata.get("within"), name)
        elif not isinstance(value, typing.cast(type, kind)):
            raise ConfigError(f"{name}={value!r} is not a {typing.cast(type, kind).__name__}")


def needless(config: Any, name: str, applies: bool, remedy: str) -> None:
    """Raise for a setting that was changed but would have no effect."""
    default = next(field.default for field in dataclasses.fields(config) if field.name == name)
    value = getattr(config, name)
    if not applies and value != default:
        group = type(config).__name__.removesuffix("Config").lower()
        raise ConfigError(f"{group}.{name}={value} has no effect without {remedy}; leave it out")
