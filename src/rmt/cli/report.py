"""`rmt report`: results of many runs as one table beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rmt.cli.arguments import command, parsed

EXAMPLES = """examples:
  rmt report runs
  rmt report results/algorithmic.jsonl"""


def main(argv: Sequence[str]) -> int:
    parser = command(
        "rmt report",
        "A Markdown table of results: means over seeds, the paper's numbers beside its own tasks.",
        EXAMPLES,
    )
    parser.add_argument(
        "results", metavar="PATH", nargs="*", default=["runs"], help="run folders or .jsonl files"
    )
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    from rmt.experiments.report import read_results, report

    print(report(read_results(Path(path) for path in arguments.results)))
    return 0
