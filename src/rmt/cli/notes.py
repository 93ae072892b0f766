"""What the package has to say on the way, such as where a text is prepared, as lines on standard error."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PAUSE = 10.0  # seconds between two lines in a pipe


class Notes(logging.Handler):
    """Prints a line for each message."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"rmt: {record.getMessage()}", file=sys.stderr)


@contextmanager
def notes() -> Iterator[None]:
    """While this is open, the package's messages are printed."""
    logger, handler = logging.getLogger("rmt"), Notes()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def seldom(tell: Callable[..., None]) -> Callable[..., None]:
    """The same function, called once in `PAUSE` seconds at most, and not before the first are over."""
    last = time.monotonic()

    def tell_seldom(*values: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            tell(*values)

    return tell_seldom


def warn(text: str) -> None:
    """A line on standard error."""
    print(f"rmt: {text}", file=sys.stderr)
