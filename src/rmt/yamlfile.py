"""Settings as YAML: a file read or a text written, and one line for what is wrong with it.

Only the plain part of YAML is taken: no aliases, of which nine levels make a file of a kilobyte grow without
end, no tags, no key twice, and no more text or depth than settings can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError, shown

MOST_BYTES = 1 << 18  # of a file; a whole configuration has 3,000
MOST_LEVELS = 16  # of groups in groups; a configuration has 3


def load_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file; anything else is an error that names the file."""
    source = f"config file {str(path)!r}"
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise too_large(source)
        text = content.decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a path with a character of value 0
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{source} cannot be read ({reason}); name another with --config") from None
    return parse_yaml(text, source)


def parse_yaml(text: str, source: str) -> dict[str, Any]:
    """The mapping that a YAML text is, with nothing in it that a reader would not expect."""
    import yaml

    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise too_large(source)
    try:
        values = loaded(text, source)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{source} must hold a mapping of settings, such as 'seed: 1'")
    return values


def loaded(text: str, source: str) -> Any:
    """What a YAML text holds: by the loader in C, or by the slower one, whose errors quote the line."""
    import yaml

    if yaml.__with_libyaml__:
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            return loaded_by(yaml.CSafeLoader, text, source)
    return loaded_by(yaml.SafeLoader, text, source)


def loaded_by(loader: Any, text: str, source: str) -> Any:
    import yaml

    refuse_unexpected(text, source, loader)
    return yaml.load(text, settings_loader(source, loader))


def too_large(source: str) -> ConfigError:
    return ConfigError(f"{source} has more than {MOST_BYTES:,} bytes; name a file of settings")


def refuse_unexpected(text: str, source: str, loader: Any) -> None:
    """Raise for an alias, an anchor, a tag, or groups in groups without end, before anything is built."""
    import yaml

    level = 0
    for event in yaml.parse(text, loader):
        line = event.start_mark.line + 1
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if level > MOST_LEVELS:
            raise ConfigError(
                f"{source}, line {line}: more than {MOST_LEVELS} levels; leave the inner ones out"
            )
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{source}, line {line}: *{event.anchor} is an alias; write the value out")
        if getattr(event, "anchor", None) is not None:
            raise ConfigError(f"{source}, line {line}: &{event.anchor} is an anchor; leave it out")
        if getattr(event, "tag", None) is not None:
            raise ConfigError(f"{source}, line {line}: {event.tag} is a tag; leave it out")


def settings_loader(source: str, loader: Any) -> Any:
    """A loader of plain YAML that refuses a key that stands twice."""
    import yaml

    class Loader(loader):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            lines: dict[str, int] = {}
            for key, _ in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name in lines:
                    raise ConfigError(
                        f"{source} has the key {shown(name)} twice, in lines {lines[name]} and {line}; "
                        "leave one out"
                    )
                lines[name] = line
            return super().construct_mapping(node, deep)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, LookupError, AttributeError):  # 2020-13-45
                message = f"{shown(node.value)} is not a {node.tag.rsplit(':')[-1]}"
                raise yaml.constructor.ConstructorError(None, None, message, node.start_mark) from None

    return Loader


def write_yaml(values: Mapping[str, Any]) -> str:
    """Nested dictionaries as YAML text, in the order of the fields."""
    import yaml

    return str(yaml.dump(dict(values), Dumper=plain_dumper(), sort_keys=False, allow_unicode=True))


def plain_dumper() -> Any:
    """The dumper that writes a value out each time: a list that stands twice would get an anchor."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Dumper
