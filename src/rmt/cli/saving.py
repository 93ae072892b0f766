"""Where a session's state may be saved."""

from __future__ import annotations

from pathlib import Path

from rmt.errors import ConfigError


def require_new(save: str | None, resume: str | None) -> None:
    """Refuse a file that is there, unless the session comes from it, and one in a folder that is not."""
    if save and save != resume and Path(save).exists():
        raise ConfigError(f"save={save!r} exists; go on from it with --resume {save}, or name another")
    if save and not Path(save).absolute().parent.is_dir():
        raise ConfigError(f"save={save!r} is in a folder that does not exist; make it first")
