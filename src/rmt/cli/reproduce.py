"""`rmt reproduce NAME`: the paper's comparisons, many runs at a time, as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal

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
    runs = list(SUITES[options.name](options.data, options.steps))
    if options.list:
        print("\n".join(f"rmt train {run.arguments}" for run in runs))
        return 0
    from rmt.experiments.report import report
    from rmt.experiments.reproduce import Ended, reproduce

    def heard(ended: Ended, left: int) -> None:
        found = f"{ended.result['metric']} {ended.result['value']:.4f}" if ended.result else ended.said
        print(f"{ended.run.name}  {found}  ({left} to go)", flush=True)

    folder = Path(options.out or f"runs/{options.name}")
    extra = ["--device", options.device]
    results = reproduce(
        runs, folder, extra, options.workers, inf if options.seconds is None else options.seconds, heard
    )
    print(report(results))
    return 0 if len(results) == len(runs) else 1
