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
from rmt.errors import ConfigError, RMTError, shown
from rmt.experiments.data_location import as_planned, located, with_data
from rmt.experiments.settings import Settings, dotted, merge
from rmt.seal import load_record
from rmt.store import write_whole
from rmt.train.names import short_name
from rmt.yamlfile import load_yaml, write_yaml

RECORD = "cell.json"
WALL_SECONDS = "wall_seconds"  # of a record: what the cell took, with trials, evaluations and starts
STRETCHES = "stretches"  # of a record: when its workers were at work, and where
MUON_RATE = "optimizer.matrix_lr"
DAMAGED = "delete it and run the command again"  # the remedy for a record
NONE = "none"  # the value of a setting that a cell does not have


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
    text: str = option("", "fingerprint of the text it learns from, where that was known")

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
    """The file that a worker of this cell takes, beside the cell's folder; what it was part of, it stays."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{cell.name}.yaml"
    write_whole(file, write_yaml(shown_in_all(to_dict(cell), begun_cell(cell.name, folder))))
    return file


def record_of(cell: PlannedCell, folder: Path) -> dict[str, Any]:
    """What came out of this cell, or nothing while it is unfinished."""
    record = recorded_so_far(cell, folder)
    return record if record and is_of(record, cell) else {}


def recorded_so_far(cell: PlannedCell, folder: Path) -> dict[str, Any]:
    """What came out of this cell with as many seeds or fewer; nothing where there is no record."""
    file = folder / cell.name / RECORD
    if not file.exists():
        return {}
    record = load_record(file, DAMAGED)
    return record if is_begun(record, cell) else {}


def is_of(record: Mapping[str, Any], cell: PlannedCell) -> bool:
    """Whether a record is of this cell, and has as many seeds."""
    return is_begun(record, cell) and seeds_of(record) >= cell.seeds


def is_begun(record: Mapping[str, Any], cell: PlannedCell) -> bool:
    """Whether a record is of this cell with any number of seeds, and whatever figures it is part of.

    Nor does it matter on which device and in which folder it was trained.
    """
    recorded = record.get("cell")
    return isinstance(recorded, dict) and not differences(recorded, cell)


def refuse_other_settings(cells: Iterable[PlannedCell], folder: Path) -> None:
    """Raise for a cell of which a folder has runs with other settings than it has now."""
    for cell in cells:
        if (begun := begun_cell(cell.name, folder)) and (others := differences(begun, cell)):
            name, former, current = others[0]
            raise ConfigError(
                f"out={str(folder)!r} holds {cell.name} with {name}={former}, not {current}; "
                f"name another --out, or go back to {name}={former}"
            )


def begun_cell(name: str, folder: Path) -> dict[str, Any]:
    """The cell that a folder has a record or runs of, as it was planned; nothing where there are none."""
    record, file = folder / name / RECORD, folder / f"{name}.yaml"
    if record.exists():
        cell = load_record(record, DAMAGED).get("cell")
        return cell if isinstance(cell, dict) else {}
    if not file.exists() or not any((folder / name).glob("*/config.yaml")):
        return {}
    try:
        return to_dict(load_cell(file))
    except RMTError:  # it is written anew, and its runs have settings of their own that they insist on
        return {}


def differences(recorded: Mapping[str, Any], cell: PlannedCell) -> list[tuple[str, str, str]]:
    """What makes a recorded cell another than the planned one: names, and the values of both."""
    settings = as_planned(recorded.get("settings"), cell.settings)
    plans = ({**recorded, "settings": settings}, to_dict(cell))
    is_text_known = all(plan.get("text") for plan in plans)
    former, current = (dotted(identity(plan, is_text_known)) for plan in plans)
    names = (name for name in {**current, **former} if former.get(name, NONE) != current.get(name, NONE))
    return [
        (short_name(name.removeprefix("settings.")), shown_value(former, name), shown_value(current, name))
        for name in names
    ]


def shown_value(settings: Mapping[str, Any], name: str) -> str:
    """The value of a setting in a message."""
    value = settings.get(name, NONE)
    return value if isinstance(value, str) else shown(value)


def seeds_of(record: Mapping[str, Any]) -> int:
    """How many seeds a record has; an empty or damaged one has none."""
    runs = record.get("runs")
    return len(runs) if isinstance(runs, list) else 0


def identity(cell: Mapping[str, Any], is_text_known: bool) -> dict[str, Any]:
    """What two plans of one cell have in common: the text, if both know it, whatever it is called."""
    settings = cell.get("settings")
    others = {name: value for name, value in settings.items() if name != "device"} if settings else settings
    incidental = {"seeds": None, "exhibits": None, "text": None}
    if not is_text_known:
        return {**cell, "settings": others, **incidental}
    return {**cell, "settings": with_data(others or {}, ""), **incidental, "text": cell["text"], "name": None}


def shown_in_all(cell: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A cell that is part of the figures and tables of another plan of it, too."""
    exhibits = dict.fromkeys((*(cell.get("exhibits") or ()), *(other.get("exhibits") or ())))
    return {**cell, "exhibits": list(exhibits)}


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
