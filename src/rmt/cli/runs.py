"""`rmt runs`: list runs, filter and sort them, and show what differs between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmt.cli.front import Command, Options
from rmt.cli.notes import warn
from rmt.cli.terminal import cell, console
from rmt.config import SCALAR, option, parse
from rmt.errors import ConfigError

if TYPE_CHECKING:
    from rmt.experiments.listed import ListedRun

EXAMPLES = """examples:
  rmt runs
  rmt runs demo --sort accuracy --reverse              the largest first; also --sort value
  rmt runs --where task=copy --where memory=8          also --where optimizer.lr=0.01
  rmt runs runs/a runs/b --compare                     every setting in which runs differ, by its values
  rmt runs --json"""
SHARED = ("task", "length", "segments", "model", "memory", "cache", "depth", "recipe", "seed")
WIDEST = 200  # columns of a table in a pipe
GAP = 2  # columns between two columns, as rich puts them
Column = tuple[str, Sequence[str]]  # heading and values


@dataclass(frozen=True, kw_only=True)
class RunsOptions(Options):
    """The options of `rmt runs`."""

    folders: tuple[str, ...] = option(
        ("runs",), "where to look: run folders, or above them", argument="FOLDER"
    )
    where: dict[str, Any] = option({}, "only runs with this value of a column or setting; may be repeated")
    sort: str = option("run", "column, setting or score to sort by")
    reverse: bool = option(False, "the largest first")
    compare: bool = option(False, "every setting in which the runs differ, and which runs have which value")
    json: bool = option(False, "print JSON lines")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compare and self.json:
            raise ConfigError("compare and json are two ways to print the runs; leave one out")


COMMAND = Command(
    "runs", "A table of the runs below a folder: what differs, and what came of it.", EXAMPLES, RunsOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.listed import listed_runs

    runs = listed_runs(map(Path, options.folders), warn)
    runs = ordered([run for run in runs if matches(run, options.where, runs)], options)
    if options.json:
        for run in runs:
            print(json.dumps(row_of(run)))
    elif not runs:
        print("no runs here" if not options.where else "no run is like that")
    elif options.compare:
        compare(runs)
    else:
        show(runs)
    return 0


def row_of(run: ListedRun) -> dict[str, Any]:
    """One run in a line: where it is, what it is, how far it came."""
    settings, is_documents = run.settings, run.is_finetuned
    return {
        "run": str(run.folder),
        "task": str(settings["data"]) if is_documents else settings["task.name"],
        "data": str(settings["data"] if is_documents else settings["task.data"]),
        "length": (settings["segment_length"] or "") if is_documents else settings["task.length"],
        "segments": run.value("segments"),
        "model": Path(str(settings["backbone"])).name if is_documents else settings["preset"],
        "memory": run.value("memory"),
        "cache": 0 if is_documents else run.value("cache"),
        "depth": run.value("depth"),
        "recipe": "finetune" if is_documents else settings["recipe"],
        "seed": settings["seed"],
        "steps": run.steps,
        "metric": run.result.get("metric", ""),
        "value": run.result.get("value"),
        "explorer": None if run.explorer is None else str(run.explorer),
    }


def column_value(run: ListedRun, name: str, runs: Sequence[ListedRun]) -> Any:
    """A column of a run, one of its settings or of its scores; a name that no run has is an error."""
    from rmt.experiments.spelling import ABSENT
    from rmt.train.names import ALIASES

    row = row_of(run)
    if name in row:
        return row[name]
    if any(name in other.scores for other in runs):
        return run.scores.get(name)
    if all(ALIASES.get(name, name) not in other.settings for other in runs):
        columns = ", ".join(row)
        raise ConfigError(
            f"{name!r} is no column, setting or score of these runs; the columns are: {columns}"
        )
    value = run.value(name)
    return None if value == ABSENT else value


def matches(run: ListedRun, where: Mapping[str, Any], runs: Sequence[ListedRun]) -> bool:
    """Whether a run has all the values that were asked for."""
    from rmt.experiments.spelling import spelled

    pairs = [(column_value(run, name, runs), wanted) for name, wanted in where.items()]
    return all(spelled(value) == str(wanted) or value == as_value(wanted) for value, wanted in pairs)


def as_value(wanted: Any) -> Any:
    """A value that was asked for, a text of a command line as what it looks like."""
    return parse(wanted, SCALAR, "where") if isinstance(wanted, str) else wanted


def ordered(runs: list[ListedRun], options: RunsOptions) -> list[ListedRun]:
    """The runs in the order of a column; those that have no value there come last."""
    values = {run.folder: column_value(run, options.sort, runs) for run in runs}
    known = [run for run in runs if values[run.folder] is not None]
    known.sort(key=lambda run: sort_key(values[run.folder]), reverse=options.reverse)
    return known + [run for run in runs if values[run.folder] is None]


def sort_key(value: Any) -> tuple[bool, float, str]:
    """Numbers by their size, before words."""
    is_number = isinstance(value, (int, float))
    return not is_number, float(value) if is_number else 0.0, str(value)


def show(runs: Sequence[ListedRun]) -> None:
    """What all runs share in a line, and a table of what differs."""
    from rich.table import Table

    from rmt.experiments.listed import differing, spelled_of
    from rmt.experiments.settings import DERIVED, UNNAMED
    from rmt.experiments.spelling import spellings
    from rmt.train.names import short_name

    rows = [row_of(run) for run in runs]
    shared_columns = {name: set(spellings([row[name] for row in rows])) for name in SHARED}
    same = {name: values.pop() for name, values in shared_columns.items() if len(values) == 1}
    terminal = console(width=WIDEST)
    if shared := ", ".join(f"{name} {value}" for name, value in same.items() if value != "–"):
        terminal.print(cell(f"all: {shared}"))
    names = differing(runs)
    telling = [name for name in names if name not in UNNAMED | DERIVED | {"train.steps"}]
    telling += ["seed"] if "seed" not in same else []
    columns = {short_name(name): spelled_of(runs, name) for name in telling}
    ends = {"steps": [f"{row['steps']:,}" for row in rows], **results(rows)}
    shown = fitting(columns, ("run", [row["run"] for row in rows]), ends, terminal.width)
    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold")
    for name in (*shown, *ends):
        table.add_column(name, no_wrap=True, justify="right" if name in ends else "left")
    for index, row in enumerate(rows):
        table.add_row(
            *map(cell, (row["run"], *(column[index] for column in (*shown.values(), *ends.values()))))
        )
    terminal.print(table)
    aside = [short_name(name) for name in names if name in UNNAMED]
    if left_out := [name for name in (*columns, *aside) if name not in shown]:
        terminal.print(cell(f"also different: {', '.join(left_out)} (rmt runs --compare shows how)"))
    for row in rows:
        if row["explorer"]:
            terminal.print(cell(f"explorer: {row['explorer']}"))


def results(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The last columns: the metric's name heads its values where all runs have the same."""
    values = ["unfinished" if row["value"] is None else f"{row['value']:.4f}" for row in rows]
    metrics = {row["metric"] for row in rows if row["value"] is not None}
    if len(metrics) == 1:
        return {metrics.pop(): values}
    return {**({"metric": [row["metric"] for row in rows]} if metrics else {}), "value": values}


def fitting(
    columns: Mapping[str, list[str]], names: Column, ends: Mapping[str, list[str]], width: int
) -> dict[str, list[str]]:
    """As many of the columns, from the first, as leave room for the last ones and for whole names.

    Names that take more than half of the width may be folded.
    """
    room = width - sum(map(needed, ends.items())) - min(needed(names), width // 2)
    shown: dict[str, list[str]] = {}
    for name, values in columns.items():
        room -= needed((name, values))
        if room < 0:
            break
        shown[name] = values
    return shown


def needed(column: Column) -> int:
    """The width of a column with what stands before it."""
    name, values = column
    return GAP + max(map(len, (name, *values)))


def compare(runs: Sequence[ListedRun]) -> None:
    """Every setting that differs, each of its values with the runs that have it."""
    from rich.table import Table

    from rmt.experiments.listed import differing
    from rmt.train.names import short_name

    terminal, table = console(width=WIDEST), Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "runs"):
        table.add_column(heading, overflow="fold")
    for name in differing(runs):
        setting = short_name(name)
        for value, folders in by_value(runs, name):
            for folder in folders if len(folders) <= len(runs) / 2 else [f"the other {len(folders)}"]:
                table.add_row(*map(cell, (setting, value, folder)))
                setting = value = ""
    same = cell("the runs differ in nothing but their seeds and machines")
    terminal.print(table if table.rows else same)


def by_value(runs: Sequence[ListedRun], name: str) -> list[tuple[str, list[str]]]:
    """The values of a setting, each with its runs, the most usual one last."""
    from rmt.experiments.listed import spelled_of, with_setting

    folders: dict[str, list[str]] = {}
    members = with_setting(runs, name)
    for run, value in zip(members, spelled_of(members, name), strict=True):
        folders.setdefault(value, []).append(str(run.folder))
    return sorted(folders.items(), key=lambda pair: len(pair[1]))
