"""Records of cells in files: read with all that reports show, written to be kept, and taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from rmt.config import from_dict, to_dict
from rmt.errors import ConfigError, RMTError, shown
from rmt.experiments.attention_maps import map_of
from rmt.experiments.cells import (
    DAMAGED,
    RECORD,
    WALL_SECONDS,
    PlannedCell,
    is_begun,
    recorded_so_far,
    seeds_of,
    shown_in_all,
)
from rmt.experiments.comparison import PUBLISHED_SPLIT, Record
from rmt.experiments.figures import CHARTS, METRICS
from rmt.experiments.report import is_cell, lines_of
from rmt.experiments.shown import REMEDY, pass_over, reason_no_numbers
from rmt.location import require_trust
from rmt.seal import load_record, sealed
from rmt.store import write_json
from rmt.train.config import RunConfig
from rmt.train.folder import is_number, seed_folder
from rmt.train.stored import FORMER_PRECISION
from rmt.yamlfile import load_yaml

DOCUMENT_EXHIBITS = {"table-3"}  # what cells of rmt finetune are part of
SHOWN_SETTINGS: dict[str, tuple[type, ...]] = {
    "backbone": (str,),
    "segments": (int,),
    "segment_length": (int, NoneType),
    "memory": (int,),
    "depth": (int, str),
    "batch": (int,),
    "epochs": (float,),
}  # what reports show of rmt finetune's
LONGEST_NUMBER = 10  # digits of a segment's
RUN_NUMBERS = ("value", "steps", "seconds")
RUN_TEXTS = ("run", "source", "device")


def load_cells(paths: Iterable[Path], warn: Callable[[str], None]) -> list[Record]:
    """The records of cells below paths; what cannot be shown is named and passed over, unless it is all."""
    records, errors = cells_below(paths)
    pass_over(errors, not records, warn)
    return records


def cells_below(paths: Iterable[Path]) -> tuple[list[Record], list[RMTError]]:
    """The records of cells in folders, and in .jsonl files with a cell per line; each trained cell once.

    With them, why others below a folder cannot be shown.
    """
    records: list[Record] = []
    errors: list[RMTError] = []
    for path in paths:
        for file in sorted(path.rglob(RECORD)) if path.is_dir() else [path]:
            try:
                records += [shown_cell(record, file) for record in records_in(file)]
            except RMTError as error:
                if file == path:
                    raise
                errors.append(error)
    return merged(records), errors


def records_in(file: Path) -> Iterable[Record]:
    """The records of cells in a file."""
    if file.suffix == ".jsonl":
        return filter(is_cell, lines_of(file))
    return [load_record(file, DAMAGED)] if file.name == RECORD else []


def merged(records: Iterable[Record]) -> list[Record]:
    """Every trained cell once: its fullest record, part of the figures and tables of all its records."""
    kept: list[Record] = []
    for record in records:
        index = next((index for index, other in enumerate(kept) if is_same_cell(record, other)), len(kept))
        former = kept[index : index + 1]
        kept[index : index + 1] = [joined_records(*former, record)]
    return kept


def is_same_cell(first: Record, second: Record) -> bool:
    """Whether two records are of one cell as it was trained once: the seeds that both have are the same."""
    if any(run != other for run, other in zip(first["runs"], second["runs"], strict=False)):
        return False
    pairs = ((first, second), (second, first))
    return any(is_begun(record, planned(other["cell"])) for record, other in pairs)


def joined_records(*records: Record) -> Record:
    fullest = max(records, key=seeds_of)
    cell = fullest["cell"]
    for record in records:
        cell = shown_in_all(cell, record["cell"])
    return {**fullest, "cell": cell}


def written_cells(records: Iterable[Record]) -> str:
    """Cells as .jsonl, a line each, sealed: small enough to be kept with a project."""
    return "".join(json.dumps(sealed(record), ensure_ascii=False) + "\n" for record in records)


def take_up(cells: Iterable[PlannedCell], folder: Path, records: Mapping[str, Record]) -> None:
    """Put records, by the names of cells, into the folders of these; one with as many seeds stays there.

    What a record has is not trained again. It is said to be part of all figures that its cell is part of now.
    """
    for cell in cells:
        here, other = recorded_so_far(cell, folder), records.get(cell.name, {})
        best = max(here, {} if has_other_rate(cell, folder, other) else other, key=seeds_of)
        if not best:
            continue
        record = {**best, "cell": {**shown_in_all(best["cell"], to_dict(cell)), "name": cell.name}}
        if record != here:
            (folder / cell.name).mkdir(parents=True, exist_ok=True)
            write_json(folder / cell.name / RECORD, sealed(record))


def has_other_rate(cell: PlannedCell, folder: Path, record: Record) -> bool:
    """Whether a seed that a record does not have was begun here, with a rate that was chosen here."""
    seeds = (seed_folder(folder / cell.name, seed) for seed in range(seeds_of(record), cell.seeds))
    configs = (load_yaml(run / "config.yaml") for run in seeds if (run / "config.yaml").exists())
    return any(value_at(config, cell.rate_of) != record.get("rate") for config in configs if cell.rates)


def value_at(settings: Any, name: str) -> Any:
    """A setting by its dotted name; nothing where there is none."""
    for part in name.split("."):
        settings = settings.get(part) if isinstance(settings, Mapping) else None
    return settings


def records_of(cells: Iterable[PlannedCell], path: Path, warn: Callable[[str], None]) -> dict[str, Record]:
    """The records that `path` has of these cells, with any number of seeds, by their names: the fullest."""
    records = load_cells([path], warn) if path.exists() else []
    if not records:
        raise ConfigError(
            f"records={str(path)!r} holds no cells; name a file that rmt report --records wrote"
        )
    begun = ((cell, record) for cell in cells for record in records if is_begun(record, cell))
    fullest: dict[str, Record] = {}
    for cell, record in begun:
        fullest[cell.name] = max(fullest.get(cell.name, {}), record, key=seeds_of)
    return fullest


def shown_cell(record: Record, file: Path) -> Record:
    """A record with all that reports show; a setting that did not exist yet has its default."""
    try:
        cell = planned(record.get("cell"))
        reason = reason_no_exhibits(cell) or reason_no_outcome(record) or reason_no_runs(record)
        config = {} if reason else shown_config(record, cell)
    except ConfigError as error:
        reason = str(error)
    if reason:
        remedy = DAMAGED if file.name == RECORD else REMEDY
        raise ConfigError(f"{str(file)!r} holds no cell of rmt reproduce ({reason}); {remedy}")
    if cell.command == "train":
        require_trust(config["task"]["name"], "config.task.name", file)
    return {**record, "cell": to_dict(cell), "config": config}


def planned(cell: Any) -> PlannedCell:
    if not isinstance(cell, dict) or "name" not in cell:
        raise ConfigError(f"cell={shown(cell)} has no name")
    return from_dict(PlannedCell, cell)


def reason_no_exhibits(cell: PlannedCell) -> str:
    """Why a cell is of no figure or table; nothing if it is of some."""
    known = DOCUMENT_EXHIBITS if cell.command == "finetune" else CHARTS.keys() - DOCUMENT_EXHIBITS
    other = sorted(set(cell.exhibits) - known)
    return f"cell.exhibits={shown(other[0])} is no figure or table of rmt {cell.command}" if other else ""


def reason_no_outcome(record: Record) -> str:
    """Why metric, rate and trials are none; nothing if they are."""
    metric, trials = record.get("metric"), record.get("trials")
    if not isinstance(metric, str) or metric not in METRICS:
        return f"metric={shown(metric)} is not known"
    if not isinstance(trials, list) or not all(isinstance(trial, dict) for trial in trials):
        return f"trials={shown(trials)} are no list of rates"
    if reason := reason_no_numbers({WALL_SECONDS: record.get(WALL_SECONDS, 0.0)}):
        return reason
    for mapping, name in ((record, "rate"), *((trial, "validation") for trial in trials)):
        if name not in mapping or not (mapping[name] is None or is_number(mapping[name])):
            return f"{name}={shown(mapping.get(name))} is no number"
    rates = ({"rate": trial.get("rate")} for trial in trials)
    return next((reason for rate in rates if (reason := reason_no_numbers(rate))), "")


def reason_no_runs(record: Record) -> str:
    """Why the runs are none; nothing if they are."""
    runs = record.get("runs")
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        return f"runs={shown(runs)} are no list of runs"
    texts = {shown(run.get("fingerprint")) for run in runs if "fingerprint" in run}
    if len(texts) > 1:
        return f"its runs are of several texts: {', '.join(sorted(texts))}"
    segments = runs[0].get("by_segment")
    return next((reason for run in runs if (reason := reason_no_run(run, segments))), "")


def reason_no_run(run: Mapping[str, Any], segments: Any) -> str:
    """Why something is no run; `segments` are the answering ones of the first run."""
    for name in (*RUN_TEXTS, *({"fingerprint"} & run.keys())):
        if not isinstance(run.get(name), str):
            return f"{name}={shown(run.get(name))} of a run is no text"
    if reason := reason_no_numbers({name: run.get(name) for name in RUN_NUMBERS}):
        return reason
    if run["steps"] <= 0:
        return f"steps={run['steps']} must be above 0"
    if reason := reason_no_numbers({"constant": run.get("constant", 0.0)}):
        return reason
    metrics, answered, curve = (run.get(name) for name in ("metrics", "by_segment", "curve"))
    if not isinstance(metrics, dict) or not all(map(is_number, papers_values(metrics))):
        return f"metrics={shown(metrics)} are none"
    if not isinstance(answered, dict) or answered.keys() != segments.keys() or not is_answered(answered):
        return f"by_segment={shown(answered)} has no number for each answering segment"
    if not is_curve(curve):
        return f"curve={shown(curve)} is no list of steps and values"
    maps = run.get("maps", [])
    if not isinstance(maps, list) or None in map(map_of, maps):
        return f"maps={shown(maps)} are no list of attention maps"
    return ""


def papers_values(metrics: Mapping[str, Any]) -> list[Any]:
    """What a run says by the paper's own measures."""
    on_published = metrics.get(PUBLISHED_SPLIT, {})
    scores = on_published.values() if isinstance(on_published, dict) else [None]
    return [metrics.get("original_accuracy", 0.0), *scores]


def is_curve(curve: Any) -> bool:
    """Whether something is a list of pairs of numbers."""
    return isinstance(curve, list) and all(
        isinstance(point, list) and len(point) == 2 and all(map(is_number, point)) for point in curve
    )


def is_answered(segments: Mapping[str, Any]) -> bool:
    """Whether every key is the number of a segment, and every value a number."""
    return all(
        key.isdecimal() and len(key) < LONGEST_NUMBER and is_number(value) for key, value in segments.items()
    )


def shown_config(record: Record, cell: PlannedCell) -> dict[str, Any]:
    """The configuration of the runs, with all that reports show."""
    config = record.get("config")
    if not isinstance(config, dict):
        raise ConfigError(f"config={shown(config)} is no mapping")
    if cell.command == "train":
        return to_dict(from_dict(RunConfig, {"precision": FORMER_PRECISION, **config}))
    for name, kinds in SHOWN_SETTINGS.items():
        value = config.get(name)
        if name not in config or not isinstance(value, kinds) or isinstance(value, bool):
            raise ConfigError(f"config.{name}={shown(value)} is no {kinds[0].__name__}")
    return config
