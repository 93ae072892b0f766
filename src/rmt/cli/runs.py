"""`rmt runs`: list runs and compare them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rmt.cli.front import Command, Options
from rmt.cli.terminal import cell, console
from rmt.config import option
from rmt.errors import CheckpointError, ConfigError, RMTError
from rmt.yamlfile import load_yaml

EXAMPLES = """examples:
  rmt runs
  rmt runs demo --sort value
  rmt runs --json"""


@dataclass(frozen=True, kw_only=True)
class RunsOptions(Options):
    """The options of `rmt runs`."""

    folder: str = option("runs", "where to look", argument="FOLDER")
    sort: Literal["run", "task", "value", "steps"] = option("run", "column to sort by")
    json: bool = option(False, "print JSON lines")


COMMAND = Command("runs", "A table of the runs below a folder.", EXAMPLES, RunsOptions)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    folder = Path(options.folder)
    if not folder.is_dir():
        raise ConfigError(
            f"folder={options.folder!r} does not exist; name a folder with runs, or train one first"
        )
    rows = sorted(runs_below(folder), key=lambda row: row["run"])
    if options.sort != "run":
        rows.sort(key=lambda row: (row[options.sort] is None, row[options.sort]))
    if options.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    show(rows)
    return 0


def runs_below(folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each run below a folder; what cannot be read as one is named and passed over."""
    for path in folder.rglob("config.yaml"):
        try:
            yield row_of(path.parent)
        except RMTError as error:
            print(f"rmt: {str(path.parent)!r} is passed over: {error}", file=sys.stderr)
        except (KeyError, TypeError) as error:  # of a run of rmt finetune, whose settings are not all there
            print(f"rmt: {str(path.parent)!r} is passed over: {error} is missing or wrong", file=sys.stderr)


def row_of(run: Path) -> dict[str, Any]:
    """One run in a line: where it is, what it is, how far it came."""
    from rmt.train.checkpoint import Checkpoints, load_config
    from rmt.train.folder import load_result

    result, settings = load_result(run), load_yaml(run / "config.yaml")
    if "backbone" in settings:
        return document_row(run, settings, result)
    config = load_config(run)
    steps = result.get("steps") or max(Checkpoints(run).steps(), default=0)
    return {
        "run": str(run),
        "task": config.task.name,
        "length": config.task.length,
        "segments": config.task.segments,
        "model": config.preset,
        "memory": config.model.memory.size,
        "cache": config.model.cache.size,
        "depth": config.bptt.depth,
        "recipe": config.recipe,
        "seed": config.seed,
        "steps": steps,
        "metric": result.get("metric", ""),
        "value": result.get("value"),
    }


def document_row(run: Path, settings: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """A run of rmt finetune in the same columns."""
    for name in ("data", "segment_length", "segments", "memory", "depth", "seed"):
        if name not in settings:
            raise CheckpointError(f"its config.yaml is damaged: {name} is missing")
    numbers = (path.name.removeprefix("checkpoint-") for path in run.glob("checkpoints/checkpoint-*"))
    steps = (int(number) for number in numbers if number.isdigit())
    return {
        "run": str(run),
        "task": str(settings["data"]),
        "length": settings["segment_length"] or "",
        "segments": settings["segments"],
        "model": Path(str(settings["backbone"])).name,
        "memory": settings["memory"],
        "cache": 0,
        "depth": settings["depth"],
        "recipe": "finetune",
        "seed": settings["seed"],
        "steps": result.get("steps") or max(steps, default=0),
        "metric": result.get("metric", ""),
        "value": result.get("value"),
    }


def show(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in rows[0] if rows else ["no runs here"]:
        table.add_column(name, overflow="fold", no_wrap=name != "run")
    for row in rows:
        value = "unfinished" if row["value"] is None else f"{row['value']:.4f}"
        cells = {**row, "value": value}.values()
        table.add_row(*map(cell, cells))
    console(width=200).print(table)
