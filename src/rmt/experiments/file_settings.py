"""Refuse a printed config under another recipe, size or scale.

A complete configuration leaves nothing to decide: with another recipe it is the same run by another name.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from rmt.config import by_name, plain, value_in
from rmt.errors import ConfigError
from rmt.experiments.recipe import Settings, merge, resolve

DECIDING = ("recipe", "size", "scale")  # settings that others take their defaults from
TASK = ("name", "segments", "length", "data", "tokens", "options")  # what the task is


def refuse_settings_of_another(
    settings: Settings, replaced: Mapping[str, Any], from_file: Set[str], file: str
) -> None:
    """Raise where a file has what its own recipe, size or scale decided and the one named decides otherwise.

    `replaced` are the values of the file that the command line changed, `from_file` the names of those that
    it did not; `settings` are all of them together.
    """
    former = {name: replaced[name] for name in DECIDING if name in replaced}
    if not former:
        return
    before, now = decided(merge(settings, former)), decided(settings)
    differing = {name for name in before.keys() & now.keys() if before[name] != now[name]}
    kept = {name: plain(value_in(settings, name)) for name in from_file & differing}
    stale = sorted(name for name, value in kept.items() if value == before[name])
    if stale:
        flags = [name for name in former if name in differing]
        raise ConfigError(
            f"config={file!r} has settings that {listed(flags, before)} decided, not {listed(flags, now)}: "
            f"{', '.join(stale)}; leave {' and '.join(f'--{name}' for name in flags)} out, "
            "or take these settings out of the file"
        )


def decided(settings: Settings) -> dict[str, Any]:
    """What recipe, size and scale make of a task and a model; nothing where they do not go together."""
    task = {name: item for name, item in settings.get("task", {}).items() if name in TASK}
    base = {name: settings[name] for name in (*DECIDING, "preset") if name in settings}
    try:
        return by_name(resolve({**base, "task": task}))
    except ConfigError:
        return {}


def listed(names: list[str], values: Mapping[str, Any]) -> str:
    return " and ".join(f"{name}={values[name]}" for name in names)
