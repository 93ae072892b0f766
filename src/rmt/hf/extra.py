"""The optional packages behind the extra [hf]."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rmt.errors import ConfigError

OLDEST = (5, 17)
INSTALL = "pip install 'recurrent-memory[hf]'"


def require_transformers() -> Any:
    """The module transformers; raise unless it is there and not too old."""
    transformers = require_package("transformers")
    version = str(transformers.__version__)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ConfigError(f"transformers {version} is too old: {INSTALL}")
    return transformers


def require_package(name: str) -> Any:
    """The module of a package of the extra; raise in one line where it cannot be loaded."""
    try:
        return import_module(name)
    except ImportError as error:
        reason = "" if getattr(error, "name", None) == name else f" ({error})"
        raise ConfigError(f"memory for pretrained models needs {name}{reason}: {INSTALL}") from None
