"""`rmt reproduce NAME`: a figure or table of the paper, or all, and its report."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rmt.cli.front import Command, Options
from rmt.cli.notes import warn
from rmt.config import at_least, option, required
from rmt.errors import ConfigError

if TYPE_CHECKING:
    from rmt.experiments.cells import PlannedCell

EXAMPLES = """examples:
  rmt reproduce all --scale tiny --workers 2              minutes on two CPU cores
  rmt reproduce figure-3 --scale gpu --dry_run            the plan and its time, nothing is trained
  rmt reproduce table-4 --scale gpu --data data/enwik8-204-bytes
  rmt reproduce all --scale gpu --launcher slurm --workers 32
  rmt reproduce figure-8 --launcher "ssh node1 cd $PWD && {}" --workers 4
  rmt reproduce table-3 --backbones roberta-base,bert-base-cased --data data/hyperpartisan --scale gpu
The same command goes on where it stopped; finished runs are not trained again, nor are those of --records.
rmt report DIR --html FILE makes a page of it."""


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(Options):
    """The options of `rmt reproduce`."""

    name: str = required("figure-3, 4, 5, 8, table-1 to table-5, or all", argument="NAME")
    scale: Literal["tiny", "gpu", "paper"] = option(
        "tiny", "minutes on a CPU, hours of a GPU, or the paper's own settings"
    )
    seeds: int | None = option(None, "of every cell; none = as the scale has it", at_least(1))
    launcher: str = option("local", "local, slurm, ray, or a command with {} for the worker's")
    dry_run: bool = option(False, "print the plan with an estimate of its time and exit")
    out: str | None = option(None, "folder of the runs; none = runs/reproduce-SCALE")
    records: str | None = option(
        None, "a file of rmt report --records: cells that it has, of another machine perhaps, are finished"
    )
    data: str = option(
        "", "of a text: a corpus's name or a prepared folder; of table-3: the folder of articles"
    )
    backbones: tuple[str, ...] = option((), "table-3: pretrained models")
    steps: int | None = option(None, "another budget of updates for every cell", at_least(1))
    workers: int = option(1, "cells at a time", at_least(1))
    seconds: float | None = option(None, "stop after this long; none = when all is done", at_least(0))
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")


COMMAND = Command(
    "reproduce", "Train a figure or table of the paper, and print its report.", EXAMPLES, ReproduceOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.cell_records import take_up
    from rmt.experiments.suites import Order, plan

    folder = Path(options.out or f"runs/reproduce-{options.scale}")
    ordered = plan(
        Order(
            name=options.name,
            scale=options.scale,
            data=options.data,
            backbones=options.backbones,
            seeds=options.seeds,
            steps=options.steps,
        )
    )
    cells = [cell.over({"device": options.device}) for cell in ordered.cells]
    for name, reason in ordered.left_out.items():
        print(f"{name} is left out: {reason}")
    records = recorded(cells, options.records) if options.records else {}
    if options.dry_run:
        with tempfile.TemporaryDirectory() as temporary:
            write_text(cells, Path(temporary))  # estimates look into it
            left = unfinished(cells, folder, records)
            print_plan([cell.located(Path(temporary)) for cell in left], options)
        return 0
    write_text(cells, folder)
    if records:
        take_up(cells, folder, records)
        print(f"{options.records}: {len(records)} of {len(cells)} cells are finished", flush=True)
    return run(cells, folder, options)


def write_text(cells: list[PlannedCell], folder: Path) -> None:
    """The made text of scale tiny in the folder of the cells, if they learn from it."""
    from rmt.experiments.made_text import write_made_text

    try:
        write_made_text(cells, folder)
    except OSError as error:
        raise ConfigError(
            f"out={str(folder)!r} cannot be written ({error.strerror}); name another with --out"
        ) from None


def recorded(cells: list[PlannedCell], path: str) -> dict[str, dict[str, Any]]:
    """The records that a file has of the cells, by their names; a file without any has no effect."""
    from rmt.experiments.cell_records import records_of

    records = records_of(cells, Path(path))
    if not records:
        raise ConfigError(
            f"records={path!r} has none of the {len(cells)} cells as they are planned; leave it out, or give "
            "the options that it was made with"
        )
    return records


def unfinished(
    cells: list[PlannedCell], folder: Path, records: dict[str, dict[str, Any]]
) -> list[PlannedCell]:
    """The cells without a record, here or among `records`; a line says how many have one."""
    from rmt.experiments.cells import record_of

    left = [cell for cell in cells if cell.name not in records and not record_of(cell, folder)]
    if len(left) < len(cells):
        print(f"{len(cells) - len(left)} of {len(cells)} cells are finished")
    return left


def run(cells: list[PlannedCell], folder: Path, options: ReproduceOptions) -> int:
    """Train what is missing, say how each cell ended, print the report."""
    from rmt.experiments.launchers import launcher_of
    from rmt.experiments.reproduce import Ended, Limits, reproduce
    from rmt.experiments.tables import markdown_report

    failed: list[str] = []

    def report_ended(ended: Ended, left: int) -> None:
        if not ended.record:
            failed.append(ended.cell.name)
        values = ", ".join(f"{each['value']:.4f}" for each in ended.record.get("runs", ()))
        outcome = f"{ended.record['metric']} {values}" if ended.record else ended.last_line
        print(f"{ended.cell.name}  {outcome}  ({left} to go)", flush=True)

    limits = Limits(options.workers, inf if options.seconds is None else options.seconds)
    records = reproduce(cells, folder, launcher_of(options.launcher, folder), limits, report_ended)
    print(markdown_report(records))
    if len(records) == len(cells):
        return 0
    reason = f"; {folder / failed[0]}.log says why" if failed else f" after {limits.seconds:g} s"
    left = len(cells) - len(records)
    warn(f"{left} of {len(cells)} cells are not finished{reason}; the same command goes on")
    return 1


def print_plan(cells: list[PlannedCell], options: ReproduceOptions) -> None:
    """A line per cell, and the time of all of them, one after the other and by workers."""
    from rmt.experiments.estimate import estimate
    from rmt.train.device import device_of

    device = device_of(options.device) if options.scale == "tiny" else "cuda"
    total, unknown = 0.0, 0
    for cell in cells:
        asked = estimate(cell.over({"device": "cpu"} if cell.command == "train" else {}), device)
        rates = f"{len(cell.rates)} rates, " if cell.rates else ""
        seconds = "not known" if asked.seconds is None else f"{asked.seconds:,.0f} s"
        seeds = f"{cell.seeds} seed{'s' * (cell.seeds > 1)}"
        print(f"{cell.name}  {rates}{seeds}, {asked.updates:,} updates, {seconds}")
        if asked.missing:
            print(f"  {asked.missing}")
        total, unknown = total + (asked.seconds or 0.0), unknown + (asked.seconds is None)
    rest = f", and {unknown} whose time is not known" if unknown else ""
    machine = "one NVIDIA H200" if device == "cuda" else "an idle CPU core"
    print(f"{len(cells)} cells, about {total / 60:,.0f} minutes of {machine}{rest}", end="")
    print(
        f"; about {total / 60 / options.workers:,.0f} with {options.workers} workers"
        if options.workers > 1
        else ""
    )
