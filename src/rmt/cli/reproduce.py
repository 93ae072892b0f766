"""`rmt reproduce NAME`: the paper's comparisons, many runs at a time, as one table."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Literal

from rmt.cli.front import Command, Options
from rmt.config import at_least, option, required
from rmt.errors import ConfigError, unknown

EXAMPLES = """examples:
  rmt reproduce copies --workers 4 --device cuda
  rmt reproduce text --data data/wikitext-2-words --steps 2000
  rmt reproduce quadratic --list                      the commands, without running them
The same command goes on where it stopped; finished runs are not trained again."""


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(Options):
    """The options of `rmt reproduce`."""

    name: str = required("copies, retrieval, quadratic or text", argument="NAME")
    data: str = option("", "text: a corpus's name or a prepared folder")
    steps: int = option(0, "another budget of updates; 0 = each run's own", at_least(0))
    workers: int = option(1, "runs at a time", at_least(1))
    seconds: float | None = option(None, "stop after this long; none = when all runs are done", at_least(0))
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")
    out: str | None = option(None, "folder of the runs; none = runs/NAME")
    list: bool = option(False, "print the commands and exit")


COMMAND = Command(
    "reproduce", "Train all runs of a comparison and print their table.", EXAMPLES, ReproduceOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.suites import SUITES

    if options.name not in SUITES:
        raise unknown("comparison", options.name, SUITES)
    if options.data and options.name != "text":
        raise ConfigError(f"data={options.data} has no effect on {options.name}; leave it out")
    runs = [run.over({"device": options.device}) for run in SUITES[options.name](options.data, options.steps)]
    if options.list:
        print("\n".join(command_line(run.settings) for run in runs))
        return 0
    from rmt.experiments.report import report
    from rmt.experiments.reproduce import Ended, reproduce

    def report_ended(ended: Ended, left: int) -> None:
        result = ended.result
        outcome = f"{result['metric']} {result['value']:.4f}" if result else ended.last_line
        print(f"{ended.run.name}  {outcome}  ({left} to go)", flush=True)

    folder = Path(options.out or f"runs/{options.name}")
    seconds = inf if options.seconds is None else options.seconds
    results = reproduce(runs, folder, options.workers, seconds, report_ended)
    print(report(results))
    return 0 if len(results) == len(runs) else 1


def command_line(settings: dict[str, Any]) -> str:
    """The command that trains with these settings, by their dotted names."""
    flags = [(f"--{name}", str(value)) for name, value in dotted(settings) if name != "task.name"]
    return shlex.join(["rmt", "train", settings["task"]["name"], *chain(*flags)])


def dotted(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as pairs of a dotted name and a value."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
