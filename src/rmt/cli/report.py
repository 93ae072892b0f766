"""`rmt report`: results of many runs as one table beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmt.cli.front import Command, Options
from rmt.config import option

EXAMPLES = """examples:
  rmt report runs
  rmt report results/algorithmic.jsonl"""


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """The options of `rmt report`."""

    results: tuple[str, ...] = option(("runs",), "run folders or .jsonl files", argument="PATH")


COMMAND = Command(
    "report",
    "A Markdown table of results: means over seeds, the paper's numbers beside its own tasks.",
    EXAMPLES,
    ReportOptions,
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.report import load_results, report

    print(report(load_results(Path(path) for path in options.results)))
    return 0
