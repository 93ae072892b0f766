"""The optional packages behind the extra [hf]."""

from __future__ import annotations

from importlib import import_module

from rmt.errors import ConfigError

OLDEST = (5, 17)
INSTALL = "pip install 'recurrent-memory[hf]'"


def require_transformers() -> None:
    """Raise unless transformers is there and not too old."""
    require_package("transformers")
    version = str(import_module("transformers").__version__)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ConfigError(f"transformers {version} is too old: {INSTALL}")


def require_package(name: str) -> None:
    """Raise in one line where a package of the extra cannot be loaded."""
    try:
        import_module(name)
    except ImportError as error:
        reason = "" if getattr(error, "name", None) == name else f" ({error})"
        raise ConfigError(f"memory for pretrained models needs {name}{reason}: {INSTALL}") from None
