"""`rmt attention RUN`: look into the memory of a trained run, in the browser and as a table."""

from __future__ import annotations

import codecs
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rmt.cli.front import Command, TrustOptions
from rmt.cli.notes import warn
from rmt.cli.pretrained import quiet_transformers
from rmt.cli.terminal import console
from rmt.config import Interval, at_least, option, required
from rmt.errors import ConfigError, shown
from rmt.location import trusting
from rmt.store import write_page
from rmt.tasks.unknown import RULES, UnknownRule

if TYPE_CHECKING:
    from rmt.analysis.operations import Finding

EXAMPLES = """examples:
  rmt attention runs/copy-8-3-rmt-modern-0 -o explorer.html
  rmt attention RUN --text "3 1 4 1 5 9 2 6 |"     your own tokens
  rmt attention FOLDER --text letter.txt           a pretrained model with memory, as save_pretrained wrote it
  rmt attention RUN --example 7 --examples 1 --segments 6
  rmt attention RUN --serve                        and open it in the browser"""

MOST_TEXT = 4000  # bytes of a file: a page of more would be slow
LARGE = 2_000_000  # bytes from which a page is slow to send about


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(TrustOptions):
    """The options of `rmt attention`."""

    run: str = required("run folder, one checkpoint in it, or a saved model with memory", argument="RUN")
    out: str | None = option(None, "the page to write; none = explorer.html in RUN")
    split: Literal["train", "valid", "test"] = option("test", "which examples")
    example: int = option(1, "number of the first example", at_least(1))
    examples: int = option(4, "how many examples", at_least(1))
    text: str | None = option(None, "your own text or tokens, or a file of them, in place of examples")
    data: str | None = option(None, "where the data of the run are now")
    unknown: str | None = option(
        None, f"what becomes of a byte or character that the model does not know: {RULES}; none = error"
    )
    segments: int | None = option(None, "other number of segments than in training", at_least(1))
    serve: bool = option(False, "also serve the page on this machine and open it")
    port: int = option(0, "port for --serve; 0 = any free one", Interval(0, 65535))
    quiet: bool = option(False, "print only where the page is")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unknown is not None:
            UnknownRule.parse(self.unknown)
        if self.out is not None and Path(self.out).suffix.lower() != ".html":
            raise ConfigError(f"out={shown(self.out)} must end in .html: it is a page")
        if self.text is not None and (self.example, self.examples, self.split) != (1, 4, "test"):
            raise ConfigError("text takes the place of examples; leave example, examples and split out")
        if self.port and not self.serve:
            raise ConfigError(f"port={self.port} has no effect without --serve; leave it out")


COMMAND = Command(
    "attention",
    "Write a page that shows what attention does with memory, segment by segment.",
    EXAMPLES,
    AttentionOptions,
    aliases={"o": "out"},
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    with trusting(options.trust):
        page, findings = look(options)
    target = Path(options.out) if options.out else Path(options.run) / "explorer.html"
    write_page(target, page)
    if not options.quiet:
        show(findings)
    size = len(page.encode())
    large = "; fewer --examples make it smaller" if size > LARGE else ""
    print(f"explorer: {target} ({size / 1000:,.0f} kB{large})")
    if options.serve:
        serve(page, options.port)
    return 0


def look(options: AttentionOptions) -> tuple[str, Sequence[Finding]]:
    """The page of a run, and the clearest head of every operation in its first example."""
    from rmt.experiments import looking
    from rmt.experiments.wrapped_look import is_wrapped
    from rmt.tasks.task import BeyondSplit

    if is_wrapped(Path(options.run)):
        quiet_transformers()
    names = ("text", "split", "example", "examples", "segments", "data", "unknown")
    asked = {name: getattr(options, name) for name in names}
    try:
        return looking.look(options.run, looking.Look(**asked | {"text": text_of(options.text)}))
    except BeyondSplit as error:
        field = "example" if options.example > error.size else "examples"
        raise error.said_of(field, getattr(options, field)) from None


def text_of(text: str | None) -> str | None:
    """A text as it was given, or what stands in the file of that name; a byte that is not UTF-8 stays one."""
    if text is None or not is_file(text):
        return text
    from rmt.textfile import open_text

    with open_text(Path(text)) as file:
        content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        warn(f"only the first {MOST_TEXT:,} bytes of {text!r} are shown")
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return decoder.decode(content[:MOST_TEXT], final=len(content) <= MOST_TEXT).rstrip("\n")


def is_file(text: str) -> bool:
    """Whether a text is the name of a file; a long one, or one with a line break, never is."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def show(findings: Sequence[Finding]) -> None:
    """The clearest head of every operation, as a table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    headings = ("operation", "segment", "head", "attention", "order", "diagonal", "anti-diagonal", "per row")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("operation", "head", "order") else "right")
    for head in findings:
        numbers = (head.straight, head.reversed, head.compression)
        table.add_row(
            head.operation,
            str(head.segment + 1),
            str(head.head),
            f"{head.mass:.2f}",
            head.order,
            *(f"{number:.2f}" for number in numbers),
        )
    console(width=120).print(table)


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
