"""Configuration as frozen dataclasses: one text per field serves code, YAML and command line.

A field is declared with `option(default, "what it means")`. `from_dict` and `to_dict` convert nested
dataclasses, `typed` checks settings that are not yet all there, `leaves` lists their dotted names, `parse`
reads one value from text.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from rmt.errors import ConfigError, unknown

T = TypeVar("T")


def option(default: Any, help: str) -> Any:
    """A dataclass field with its one-line documentation, which is also the command line's help."""
    if dataclasses.is_dataclass(default) or isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=lambda: copy(default), metadata={"help": help})
    return dataclasses.field(default=default, metadata={"help": help})


class Leaf(NamedTuple):
    """One settable value of a nested configuration."""

    name: str  # dotted, e.g. "model.memory.size"
    type: Any
    default: Any
    help: str


def leaves(cls: type, prefix: str = "") -> Iterator[Leaf]:
    """Every settable value of a nested dataclass, depth first."""
    types_of = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        kind, name = types_of[field.name], prefix + field.name
        if dataclasses.is_dataclass(kind):
            yield from leaves(kind, name + ".")
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield Leaf(name, kind, default, field.metadata.get("help", ""))


def to_dict(config: Any) -> dict[str, Any]:
    """Nested plain dictionaries, ready for YAML and JSON."""
    return typing.cast(dict[str, Any], plain(dataclasses.asdict(config)))


def changed(config: Any) -> dict[str, Any]:
    """The settings that are not at their defaults, by their dotted names."""
    values = ((leaf, value_of(config, leaf.name)) for leaf in leaves(type(config)))
    return {leaf.name: plain(value) for leaf, value in values if value != leaf.default}


def value_of(config: Any, name: str) -> Any:
    """The value of a dotted name."""
    for part in name.split("."):
        config = getattr(config, part)
    return config


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
    types_of = typing.get_type_hints(cls)
    groups = [key for key in values if dataclasses.is_dataclass(types_of[key])]
    return cls(**{**values, **{key: build(typing.cast(type, types_of[key]), values[key]) for key in groups}})


def typed(cls: type, values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Some settings of `cls`, nested, every key known and every value of its type; else an error."""
    types_of = typing.get_type_hints(cls)
    checked = {}
    for key, value in values.items():
        if key not in types_of:
            raise unknown("key", where + str(key), [where + name for name in types_of])
        kind, name = types_of[key], where + key
        if dataclasses.is_dataclass(kind):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{name}={value!r} must be a group of settings, such as {name}.KEY")
            checked[key] = typed(typing.cast(type, kind), value, name + ".")
        else:
            checked[key] = check(value, kind, name)
    return checked


def check(value: Any, kind: Any, name: str) -> Any:
    """`value` if it fits the annotation `kind` (whole numbers pass as floats), else an error."""
    if isinstance(value, str) and float in choices(kind):
        return parse(value, kind, name)  # YAML takes 1e-3 for text
    for choice in choices(kind):
        if get_origin(choice) is tuple and isinstance(value, (list, tuple)):
            return tuple(check(item, get_args(choice)[0], name) for item in value)
        if get_origin(choice) is Literal:
            if value in get_args(choice) and not isinstance(value, bool):
                return value
        elif choice is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        elif isinstance(value, get_origin(choice) or choice) and (
            choice is bool or not isinstance(value, bool)
        ):
            return value
    raise ConfigError(f"{name}={value!r} is not {describe(kind)}")


def parse(text: str, kind: Any, name: str) -> Any:
    """One value from the command line, by the annotation of its field."""
    for choice in choices(kind):
        if choice is type(None) and text.lower() in ("none", "null"):
            return None
        if get_origin(choice) is tuple:
            return tuple(parse(item, get_args(choice)[0], name) for item in text.split(",") if item)
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
    raise ConfigError(f"{name}={text!r} is not {describe(kind)}")


def choices(kind: Any) -> tuple[Any, ...]:
    """The members of a union annotation, or the annotation itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def describe(kind: Any) -> str:
    """An annotation in words a user understands."""
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "none"}
    parts = []
    for choice in choices(kind):
        if get_origin(choice) is Literal:
            parts += [str(value) for value in get_args(choice)]
        elif get_origin(choice) is tuple:
            parts.append(f"a list of {words[get_args(choice)[0]].split(' ', 1)[1]}s, such as 2,4")
        else:
            parts.append(words.get(choice, "a group of settings"))
    return " or ".join(parts) if len(parts) < 3 else "one of: " + ", ".join(parts)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file; anything else is an error that names the file."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"config file {str(path)!r} cannot be read ({reason}); name another with --config"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"config file {str(path)!r} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"config file {str(path)!r} must hold a mapping of settings, such as 'seed: 1'")
    return values


def write_yaml(values: Mapping[str, Any]) -> str:
    """Nested dictionaries as YAML text, in the order of the fields."""
    import yaml

    return str(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))


def positive(name: str, value: float, *, zero: bool = False) -> None:
    """Raise unless `value` is above zero (or at least zero)."""
    if not math.isfinite(value):
        raise ConfigError(f"{name}={value} must be finite")
    if value < 0 or (value == 0 and not zero):
        raise ConfigError(f"{name}={value} must be {'at least 0' if zero else 'above 0'}")


def between(name: str, value: float, low: float, high: float, *, closed: bool = False) -> None:
    """Raise unless `low` <= `value` < `high` (or, closed, `low` < `value` <= `high`)."""
    if not (low < value <= high if closed else low <= value < high):
        bounds = f"above {low} and at most {high}" if closed else f"at least {low} and below {high}"
        raise ConfigError(f"{name}={value} must be {bounds}")


def check_fields(config: Any, group: str) -> None:
    """Raise for a field whose value does not fit its annotation, also in a dataclass built by hand."""
    kinds = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, kind = getattr(config, field.name), kinds[field.name]
        if dataclasses.is_dataclass(kind):
            if not isinstance(value, typing.cast(type, kind)):
                raise ConfigError(f"{group}.{field.name}={value!r} is not a {kind.__name__}")
        else:
            check(value, kind, f"{group}.{field.name}")


def needless(config: Any, name: str, applies: bool, remedy: str) -> None:
    """Raise for a setting that was changed but would have no effect."""
    default = next(field.default for field in dataclasses.fields(config) if field.name == name)
    if not applies and getattr(config, name) != default:
        group = type(config).__name__.removesuffix("Config").lower()
        raise ConfigError(
            f"{group}.{name}={getattr(config, name)} has no effect without {remedy}; leave it out"
        )
