"""What reaches a terminal: printable text, whatever file it comes from, and drawings beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO, cast

from rmt.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LAYOUT = "\n\t"  # control characters that lay a text out


class PrintableStream:
    """A stream whose text cannot command a terminal, and that takes characters its encoding does not have."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        encoding = self.stream.encoding or "utf-8"
        safe = printable(text, keep=LAYOUT)
        self.stream.write(safe.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def open_standard_streams() -> None:
    """Standard streams that this process was started without: what is printed goes nowhere, nothing is read.

    In this order each takes the number that is its own, so that no file of a run gets it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # to the end


@contextmanager
def printable_output() -> Iterator[None]:
    """While this is open, all that is printed is made printable first."""
    output, errors = (cast(TextIO, PrintableStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(output), redirect_stderr(errors):
        yield


def unchanged(stream: TextIO) -> TextIO:
    """The stream behind a printable one, for those who command the terminal themselves."""
    return unchanged(stream.stream) if isinstance(stream, PrintableStream) else stream


def write_text(text: str) -> None:
    """A model's text as it is where it goes to a file or a pipe, made printable in a terminal."""
    stream = sys.stdout if sys.stdout.isatty() else unchanged(sys.stdout)
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Where rich draws; `width` is that of a pipe, which has none of its own."""
    from rich import console as rich

    class Console(rich.Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # whoever reads has seen enough, as of everything else that is printed

    stream = unchanged(sys.stderr if stderr else sys.stdout)
    terminal = Console(file=stream, markup=False, highlight=False, emoji=False)
    return terminal if width is None or terminal.is_terminal else Console(file=stream, width=width)


def cell(value: object) -> Text:
    """A value in a table, none of which rich takes for markup."""
    from rich.text import Text

    return Text("" if value is None else printable(str(value)))
