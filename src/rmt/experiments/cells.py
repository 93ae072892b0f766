"""A cell of a comparison: one model at one position, its rate chosen on validation, several seeds.

All models of a comparison choose among the same rates on seed 0, and none stops early. Where a trial was as
long as the run, it is the run of seed 0 and not trained again. In the folder of a cell, `rate-R` and `seed-N`
are run folders, and cell.json says what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rmt.config import at_least, check_fields, from_dict, option, required, to_dict
from rmt.errors import ConfigError
from rmt.experiments.data_location import as_planned, located
from rmt.experiments.recipe import Settings, merge
from rmt.seal import load_record
from rmt.store import write_whole
from rmt.yamlfile import load_yaml, write_yaml

RECORD = "cell.json"
MUON_RATE = "optimizer.matrix_lr"


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """What a worker is given: settings nested as in a config file, rates, seeds."""

    name: str = required("name of its folder")
    exhibits: tuple[str, ...] = option((), "figures and tables that it is part of")
    command: Literal["train", "finetune"] = option("train", "what makes its runs")
    settings: dict[str, Any] = field(default_factory=dict, metadata={"help": "what all its runs set"})
    rate_of: str = option(MUON_RATE, "the setting that is chosen on validation")
    rates: tuple[float, ...] = option((), "values to choose from; none = as the settings say", at_least(0))
    trial_steps: int = option(0, "updates of a trial of a rate; 0 = as many as a run", at_least(0))
    seeds: int = option(1, "runs, from seed 0 on", at_least(1))

    def __post_init__(self) -> None:
        check_fields(self)
        if self.trial_steps and not self.rates:
            raise ConfigError(
                f"trial_steps={self.trial_steps} has no effect without rates; leave it out, or give rates"
            )

    def over(self, settings: Settings) -> PlannedCell:
        """The same cell with other settings over its own."""
        return self.replaced(settings=merge(self.settings, settings))

    def located(self, folder: Path) -> PlannedCell:
        """The same cell with data that are found, the folder of the cells being this one."""
        return self.replaced(settings=located(self.settings, folder))

    def replaced(self, **fields: Any) -> PlannedCell:
        return PlannedCell(**{**vars(self), **fields})

    def with_rate(self, rate: float) -> Settings:
        """Its settings with a rate."""
        *groups, last = self.rate_of.split(".")
        nested: Settings = {last: rate}
        for group in reversed(groups):
            nested = {group: nested}
        return merge(self.settings, nested)

    @property
    def reuses_trial(self) -> bool:
        """Whether the trial of the chosen rate is the run of seed 0."""
        return bool(self.rates) and not self.trial_steps


def load_cell(file: Path) -> PlannedCell:
    return from_dict(PlannedCell, load_yaml(file))


def write_cell(cell: PlannedCell, folder: Path) -> Path:
    """The file that a worker of this cell takes, beside the cell's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{cell.name}.yaml"
    write_whole(file, write_yaml(to_dict(cell)))
    return file


def record_of(cell: PlannedCell, folder: Path) -> dict[str, Any]:
    """What came out of this very cell, or nothing while it is unfinished."""
    file = folder / cell.name / RECORD
    if not file.exists():
        return {}
    record = load_record(file, "delete it and run the command again")
    return record if is_of(record, cell) else {}


def is_of(record: Mapping[str, Any], cell: PlannedCell) -> bool:
    """Whether a record is of this very cell, on whatever device and in whatever folder it was trained."""
    recorded, planned = record.get("cell"), to_dict(cell)
    if not isinstance(recorded, dict):
        return False
    settings = as_planned(recorded.get("settings"), cell.settings)
    return without_device({**recorded, "settings": settings}) == without_device(planned)


def without_device(cell: Mapping[str, Any]) -> dict[str, Any]:
    settings = cell.get("settings")
    others = {name: value for name, value in settings.items() if name != "device"} if settings else settings
    return {**cell, "settings": others}


def joined(cells: Iterable[PlannedCell]) -> list[PlannedCell]:
    """Every cell once, in the order of its first exhibit, with all exhibits that it is part of."""
    by_name: dict[str, PlannedCell] = {}
    for cell in cells:
        known = by_name.get(cell.name, cell)
        if known.replaced(exhibits=()) != cell.replaced(exhibits=()):
            raise ConfigError(f"two cells are named {cell.name!r} and differ; give one another name")
        both = tuple(dict.fromkeys((*known.exhibits, *cell.exhibits)))
        by_name[cell.name] = known.replaced(exhibits=both)
    return list(by_name.values())


Plan = Callable[[], Iterable[PlannedCell]]
