"""`rmt reproduce NAME`: the paper's comparisons, many runs at a time, as one table."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rmt.cli.arguments import command, one_of, parsed
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt reproduce copies --workers 4 --device cuda
  rmt reproduce text --data data/wikitext-2-words --steps 2000
  rmt reproduce quadratic --list                      the commands, without running them
The same command goes on where it stopped; finished runs are not trained again."""


def main(argv: Sequence[str]) -> int:
    parser = command("rmt reproduce", "Train all runs of a comparison and print their table.", EXAMPLES)
    parser.add_argument("name", metavar="NAME", help="copies, retrieval, quadratic or text")
    parser.add_argument("--data", default="", help="text: a corpus's name or a prepared folder")
    parser.add_argument("--steps", type=int, default=0, help="another budget of updates")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--out", metavar="DIR", help="folder of the runs (default: runs/NAME)")
    parser.add_argument("--list", action="store_true", help="print the commands and exit")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    from rmt.experiments.suites import SUITES

    one_of(arguments.name, list(SUITES), "comparison")
    one_of(arguments.device, ["auto", "cpu", "cuda"], "device")
    for name, least in (("steps", 0), ("workers", 1), ("seconds", 0)):
        if getattr(arguments, name) < least:
            raise ConfigError(f"{name}={getattr(arguments, name)} must be at least {least}")
    if arguments.data and arguments.name != "text":
        raise ConfigError(f"data={arguments.data} has no effect on {arguments.name}; leave it out")
    extra = {"device": arguments.device}
    runs = [run.over(extra) for run in SUITES[arguments.name](arguments.data, arguments.steps)]
    if arguments.list:
        print("\n".join(command_line(run.settings) for run in runs))
        return 0
    from rmt.experiments.report import report
    from rmt.experiments.reproduce import Ended, reproduce

    def heard(ended: Ended, left: int) -> None:
        result = ended.result
        outcome = f"{result['metric']} {result['value']:.4f}" if result else ended.last_line
        print(f"{ended.run.name}  {outcome}  ({left} to go)", flush=True)

    folder = Path(arguments.out or f"runs/{arguments.name}")
    results = reproduce(runs, folder, arguments.workers, arguments.seconds, heard)
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
