"""`rmt reproduce NAME`: a figure or table of the paper, or all, and its report."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rmt.cli.front import Command, Options
from rmt.cli.notes import warn
from rmt.config import at_least, option, required
from rmt.errors import ConfigError, unknown

if TYPE_CHECKING:
    from rmt.experiments.cells import PlannedCell

EXAMPLES = """examples:
  rmt reproduce all --scale tiny --workers 2              minutes on two CPU cores
  rmt reproduce figure-3 --scale gpu --dry_run            the plan and its time, nothing is trained
  rmt reproduce figure-3 --scale gpu --only "copy-24-9-*" --seeds 8
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
    only: tuple[str, ...] = option((), "cells with these names, such as copy-24-*; none = all")
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
    workers: int = option(
        1, "processes at a time: a cell each, and runs of it where there are more", at_least(1)
    )
    seconds: float | None = option(None, "stop after this long; none = when all is done", at_least(0))
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")
    quiet: bool = option(False, "no line per cell, print the report only")


COMMAND = Command(
    "reproduce", "Train a figure or table of the paper, and print its report.", EXAMPLES, ReproduceOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.cell_records import records_of, take_up
    from rmt.experiments.cell_text import refuse_other_text, with_text
    from rmt.experiments.cells import is_of, refuse_other_settings
    from rmt.experiments.launchers import LOCAL, check_launcher
    from rmt.experiments.made_text import made_text_at_hand
    from rmt.experiments.suites import Order, plan

    check_launcher(options.launcher)
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
    planned = [cell.over({"device": options.device}) for cell in chosen(ordered.cells, options.only)]
    with made_text_at_hand(planned, folder) as text_folder:
        cells = [with_text(cell, text_folder) for cell in planned]
    for cell in cells:
        refuse_other_text(cell, folder)
    refuse_other_settings(cells, folder)
    records = records_of(cells, Path(options.records), warn) if options.records else {}
    if options.records and not records:
        warn(f"{options.records} has none of the {len(cells)} cells as they are planned")
    left = unfinished(cells, folder, records)
    if options.launcher == LOCAL:
        require_documents(left)
    if left and not options.dry_run:
        require_device(options)
    for name, reason in ordered.left_out.items():
        print(f"{name} is left out: {reason}")
    if options.dry_run:
        print_left([remaining(cell, folder, records) for cell in left], len(cells), folder, options)
        return 0
    write_text(cells, folder)
    take_up(cells, folder, records)
    if options.records:
        done = sum(is_of(records[cell.name], cell) for cell in cells if cell.name in records)
        print(f"{options.records}: {done} of {len(cells)} cells are finished", flush=True)
    return run(cells, folder, options)


def chosen(cells: list[PlannedCell], patterns: tuple[str, ...]) -> list[PlannedCell]:
    """The cells whose names match, in the order of the plan; a pattern that none does is refused."""
    names = [cell.name for cell in cells]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise unknown("only", pattern, names)
    matching = {name for pattern in patterns or ("*",) for name in fnmatch.filter(names, pattern)}
    return [cell for cell in cells if cell.name in matching]


def write_text(cells: list[PlannedCell], folder: Path) -> None:
    """The made text of scale tiny in the folder of the cells, if they learn from it."""
    from rmt.experiments.made_text import write_made_text

    try:
        write_made_text(cells, folder)
    except OSError as error:
        raise ConfigError(
            f"out={str(folder)!r} cannot be written ({error.strerror}); name another with --out"
        ) from None


def unfinished(
    cells: list[PlannedCell], folder: Path, records: dict[str, dict[str, Any]]
) -> list[PlannedCell]:
    """The cells without a record, here or among `records`."""
    from rmt.experiments.cells import is_of, record_of

    return [
        cell for cell in cells if not is_of(records.get(cell.name, {}), cell) and not record_of(cell, folder)
    ]


def remaining(cell: PlannedCell, folder: Path, records: dict[str, dict[str, Any]]) -> PlannedCell:
    """A cell with the seeds that it has no runs of: where it has some, its rate is chosen."""
    from rmt.experiments.cells import recorded_so_far, seeds_of

    done = max(map(seeds_of, (recorded_so_far(cell, folder), records.get(cell.name, {}))))
    return cell.replaced(rates=(), trial_steps=0, seeds=cell.seeds - done) if done else cell


def require_documents(cells: list[PlannedCell]) -> None:
    """Raise where the articles of cells of rmt finetune are not here."""
    from rmt.experiments.suites_documents import articles

    for folder in {cell.settings["path"] for cell in cells if cell.command == "finetune"}:
        articles(folder)


def require_device(options: ReproduceOptions) -> None:
    """Raise where workers would run on this machine and need a device that it does not have."""
    from rmt.experiments.launchers import LOCAL
    from rmt.train.device import device_of

    if options.launcher == LOCAL:
        device_of(options.device)


def run(cells: list[PlannedCell], folder: Path, options: ReproduceOptions) -> int:
    """Train what is missing, say how each cell ended, print the report."""
    from rmt.experiments.launchers import launcher_of
    from rmt.experiments.reproduce import Ended, Limits, reproduce
    from rmt.experiments.tables import markdown_report

    failed: list[str] = []

    def report_ended(ended: Ended, left: int) -> None:
        if not ended.record:
            failed.append(ended.cell.name)
        values = ", ".join(f"{run['value']:.4f}" for run in ended.record.get("runs", ()))
        outcome = f"{ended.record['metric']} {values}" if ended.record else ended.last_line
        if not options.quiet:
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


def print_left(left: list[PlannedCell], count: int, folder: Path, options: ReproduceOptions) -> None:
    """How many of the cells are finished, and the plan of those that are left."""
    from rmt.experiments.made_text import made_text_at_hand

    if len(left) < count:
        print(f"{count - len(left)} of {count} cells are finished")
    if left:
        with made_text_at_hand(left, folder) as text_folder:  # estimates look into it
            print_plan([cell.located(text_folder) for cell in left], options)


def print_plan(cells: list[PlannedCell], options: ReproduceOptions) -> None:
    """A line per cell, and the time of each figure and of all, one after the other and by workers."""
    from rmt.experiments.estimate import estimate
    from rmt.train.device import device_of

    usual = device_of("auto") if options.scale == "tiny" else "cuda"
    device = usual if options.device == "auto" else options.device
    of_figures: dict[str, list[float | None]] = {}
    for cell in cells:
        asked = estimate(cell.over({"device": "cpu"} if cell.command == "train" else {}), device)
        rates = f"{len(cell.rates)} rates, " if cell.rates else ""
        seconds = "not known" if asked.seconds is None else f"{asked.seconds:,.0f} s"
        seeds = f"{cell.seeds} seed{'s' * (cell.seeds > 1)}"
        print(f"{cell.name}  {rates}{seeds}, {asked.updates:,} updates, {seconds}")
        if asked.missing:
            print(f"  {asked.missing}")
        of_figures.setdefault(cell.exhibits[0], []).append(asked.seconds)
    machine = "one NVIDIA H200" if device == "cuda" else "an idle CPU core"
    if len(of_figures) > 1:
        for name, figure in of_figures.items():
            print(f"{name}: {time_of(figure, machine)}")
    every = [seconds for figure in of_figures.values() for seconds in figure]
    print(time_of(every, machine, options.workers))


def time_of(seconds: list[float | None], machine: str, workers: int = 1) -> str:
    """What cells take, one after the other and by workers."""
    known = [of_cell for of_cell in seconds if of_cell is not None]
    cells = f"{len(seconds)} cell{'s' * (len(seconds) != 1)}"
    if not known:
        return f"{cells} whose time is not known"
    minutes = sum(known) / 60
    took = f"about {minutes:,.0f} minutes of {machine}"
    if workers > 1:
        took += f" (about {minutes / workers:,.0f} with {workers} workers)"
    if len(known) == len(seconds):
        return f"{cells}, {took}"
    return f"{cells}: {len(known)} of them {took}, {len(seconds) - len(known)} whose time is not known"
