"""The optional packages behind the extra [hf]."""

from __future__ import annotations

from importlib import metadata

from rmt.errors import ConfigError

OLDEST = (5, 17)


def require_transformers() -> None:
    """Raise unless transformers is there and not too old."""
    try:
        version = metadata.version("transformers")
    except metadata.PackageNotFoundError:
        raise ConfigError(
            "memory for pretrained models needs transformers: pip install 'recurrent-memory[hf]'"
        ) from None
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ConfigError(f"transformers {version} is too old: pip install 'recurrent-memory[hf]'")
