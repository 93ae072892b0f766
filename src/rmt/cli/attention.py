"""`rmt attention RUN`: look into the memory of a trained run, in the browser and as a table."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmt.cli.arguments import command, one_of, parsed
from rmt.errors import ConfigError

if TYPE_CHECKING:
    from rmt.analysis.operations import Finding

EXAMPLES = """examples:
  rmt attention runs/copy-8-3-rmt-modern-0 -o explorer.html
  rmt attention RUN --text "3 1 4 1 5 9 2 6 |"     your own tokens
  rmt attention RUN --example 7 --examples 1 --segments 6
  rmt attention RUN --serve                        and open it in the browser"""

LARGE = 2_000_000  # bytes from which a page is slow to send about


def main(argv: Sequence[str]) -> int:
    parser = command(
        "rmt attention",
        "Write a page that shows what attention does with memory, segment by segment.",
        EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="run folder, or one checkpoint in it")
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="the page to write (default: explorer.html in RUN)"
    )
    parser.add_argument("--split", default="test", help="train, valid or test (default: test)")
    parser.add_argument("--example", type=int, default=1, help="number of the first example (default: 1)")
    parser.add_argument("--examples", type=int, default=4, help="how many examples (default: 4)")
    parser.add_argument("--text", help="your own text or tokens, in place of examples")
    parser.add_argument("--data", metavar="PATH", help="where the data of the run are now")
    parser.add_argument("--segments", type=int, help="other number of segments than in training")
    parser.add_argument(
        "--serve", action="store_true", help="also serve the page on this machine and open it"
    )
    parser.add_argument("--port", type=int, default=0, help="port for --serve; 0 = any free one (default)")
    parser.add_argument("--quiet", action="store_true", help="print only where the page is")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    check(arguments)
    page, found = look(arguments)
    place = Path(arguments.out) if arguments.out else Path(arguments.run) / "explorer.html"
    place.write_text(page, encoding="utf-8")
    if not arguments.quiet:
        show(found)
    size = len(page.encode())
    large = "; fewer --examples make it smaller" if size > LARGE else ""
    print(f"explorer: {place} ({size / 1000:,.0f} kB{large})")
    if arguments.serve:
        serve(page, arguments.port)
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Refuse values that cannot be meant, before anything is loaded."""
    one_of(arguments.split, ["train", "valid", "test"], "split")
    for name in ("example", "examples", "segments"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise ConfigError(f"{name}={getattr(arguments, name)} must be at least 1")
    if arguments.text is not None and (arguments.example, arguments.examples, arguments.split) != (
        1,
        4,
        "test",
    ):
        raise ConfigError("text takes the place of examples; leave example, examples and split out")
    if arguments.port and not arguments.serve:
        raise ConfigError(f"port={arguments.port} has no effect without --serve; leave it out")


def look(arguments: argparse.Namespace) -> tuple[str, Sequence[Finding]]:
    """The page of a run, and the clearest head of every operation in its first example."""
    from rmt.experiments import looking

    names = ("text", "split", "example", "examples", "segments", "data")
    return looking.look(arguments.run, looking.Look(**{name: getattr(arguments, name) for name in names}))


def show(found: Sequence[Finding]) -> None:
    """The clearest head of every operation, as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    headings = ("operation", "segment", "head", "attention", "order", "diagonal", "anti-diagonal", "per row")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("operation", "head", "order") else "right")
    for one in found:
        numbers = (one.straight, one.reversed, one.compression)
        table.add_row(
            one.operation,
            str(one.segment + 1),
            str(one.head),
            f"{one.mass:.2f}",
            one.order,
            *(f"{number:.2f}" for number in numbers),
        )
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)


def serve(page: str, port: int) -> None:
    """Serve the page until the user has seen enough."""
    from rmt.analysis.explorer import server

    with server(page, port) as running:
        address = f"http://127.0.0.1:{running.server_address[1]}/"
        print(f"open at {address} (Ctrl-C ends)", flush=True)
        webbrowser.open(address)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            return
