"""Settings as YAML: a file read or a text written, and one line for what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError, shown


def load_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file; anything else is an error that names the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"config file {str(path)!r} cannot be read ({reason}); name another with --config"
        ) from None
    return parse_yaml(text, f"config file {str(path)!r}")


def parse_yaml(text: str, source: str) -> dict[str, Any]:
    """The mapping that a YAML text is; a key that stands twice in it is an error, too."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [str(key.value) for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1 and key != "<<":
                    raise ConfigError(f"{source} has the key {key!r} twice; leave one out")
            return super().construct_mapping(node, deep)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, LookupError, AttributeError):  # !!int "", !!bool maybe, !!timestamp x
                message = f"{shown(node.value)} is not a {node.tag.rsplit(':')[-1]}"
                raise yaml.constructor.ConstructorError(None, None, message, node.start_mark) from None

    try:
        values = yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{source} must hold a mapping of settings, such as 'seed: 1'")
    return values


def write_yaml(values: Mapping[str, Any]) -> str:
    """Nested dictionaries as YAML text, in the order of the fields."""
    import yaml

    return str(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))
