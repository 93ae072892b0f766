"""`rmt report`: results of many runs as one table beside the paper's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rmt.cli.arguments import Parser

EXAMPLES = """examples:
  rmt report runs
  rmt report results/algorithmic.jsonl"""


def main(argv: Sequence[str]) -> int:
    parser = Parser(
        prog="rmt report",
        description="A Markdown table of results: means over seeds, the paper's numbers in the last column.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "results", metavar="PATH", nargs="*", default=["runs"], help="run folders or .jsonl files"
    )
    arguments = parser.parse_args(argv)
    from rmt.experiments.report import markdown, read_results, table

    print(markdown(table(read_results(Path(path) for path in arguments.results))))
    return 0
