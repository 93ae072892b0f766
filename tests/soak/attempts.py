"""One command line tried in this process: what it came to."""

import io
import json
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rmt.cli.main import main

CURRENT = "current.json"  # the command line that is being tried, beside the workspace
SECONDS = 30  # of the processor that a tiny command may take
WAITING_SECONDS = 200  # on a clock, of one that waits or whose machine is busy
GOOD = ("done", "refused", "failed", "killed", "stopped", "resumed")
BAD = ("wrong", "traceback", "hang", "different", "untidy")  # wrong: in silence


class Attempt(NamedTuple):
    """A command line and its outcome."""

    words: tuple[str, ...]
    outcome: str  # of GOOD or BAD
    detail: str  # the line that was printed, or the traceback
    output: str = ""

    @property
    def is_good(self) -> bool:
        return self.outcome in GOOD


class TookTooLong(BaseException):
    """The alarm."""


def attempt(words: Sequence[str], seconds: float = SECONDS) -> Attempt:
    """Run `rmt WORDS`, its output kept, its standard input empty.

    What a model writes goes unchanged into a pipe: its bytes are for a terminal to be made printable.
    """
    Path("..", CURRENT).write_text(json.dumps(words))
    output, errors = Screen(is_terminal=words[:1] == ["generate"]), Screen()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = Screen(), output, errors
    try:
        with alarm(seconds):
            code = main(words)
    except TookTooLong:
        return Attempt(tuple(words), "hang", f"{seconds:g} s")
    except BaseException:
        return Attempt(tuple(words), "traceback", traceback.format_exc())
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return Attempt(tuple(words), *judged(code, output.text(), errors.text()), output.text())


def judged(code: int, output: str, errors: str) -> tuple[str, str]:
    """The outcome by an exit code and what was printed: a mistake is one line at the end, all printable."""
    last = errors.splitlines()[-1] if errors else ""
    if "\x1b" in output + errors:
        return "untidy", f"an escape sequence was printed: {last!r}"
    if "Traceback" in errors:
        return "traceback", errors
    if code == 0:
        return "done", last
    if code in (1, 2, 130) and last.startswith("rmt: ") and len(last) < 1500:
        return ("refused" if code == 2 else "failed"), last
    return "untidy", f"exit code {code}, {errors[-2000:]!r}"


class Screen(io.TextIOWrapper):
    """A stream in memory, a pipe or a terminal."""

    def __init__(self, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True)
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def text(self) -> str:
        buffer: Any = self.buffer
        return str(buffer.getvalue().decode("utf-8", "surrogateescape"))


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise in the main thread after so many seconds of work, or some minutes."""

    def ring(*_: Any) -> None:
        raise TookTooLong

    before = {number: signal.signal(number, ring) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WAITING_SECONDS)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
