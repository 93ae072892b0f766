"""Data in the folder of cells are named by `{out}/` for it: a cell is the same wherever its folder lies.

Releases up to 0.1 wrote down where the folder lay; what they recorded is recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from rmt.experiments.settings import Settings, merge

OUT = "{out}/"


def data_of(settings: Any) -> str:
    """The data that settings name, or nothing; of a record, settings may be anything."""
    task = settings.get("task") if isinstance(settings, Mapping) else None
    data = task.get("data") if isinstance(task, Mapping) else None
    return data if isinstance(data, str) else ""


def located(settings: Settings, folder: Path) -> Settings:
    """The settings with data that are found, the folder of the cells being this one."""
    data = data_of(settings)
    return with_data(settings, str(folder / data.removeprefix(OUT))) if data.startswith(OUT) else settings


def as_planned(settings: Any, planned: Settings) -> Any:
    """Recorded settings with the data as they are planned, where they say the folder of the cells instead."""
    recorded, data = data_of(settings), data_of(planned)
    is_same = data.startswith(OUT) and PurePath(recorded).name == PurePath(data).name
    return with_data(settings, data) if is_same else settings


def with_data(settings: Settings, data: str) -> Settings:
    return merge(settings, {"task": {"data": data}})
