"""`rmt` in a process that is forked from this one, so that torch need not be loaded again."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from tempfile import mkstemp

from rmt.cli.main import program

STARTED = get_context("fork").Process


class ForkedCommand:
    """`rmt WORDS`, to be waited for and signalled as a process of `subprocess` is."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]):
        self.printed = [unnamed_file() for _ in range(2)]  # of standard output and error
        self.process = STARTED(target=self.run, args=(words, environment), daemon=True)
        self.process.start()

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """What the process does."""
        os.environ.update(environment)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for number, descriptor in enumerate(self.printed, 1):
            os.dup2(descriptor, number)
        sys.argv, sys.stdout, sys.stderr = ["rmt", *words], os.fdopen(1, "w"), os.fdopen(2, "w")
        program()

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.process.pid or 0, number)

    def kill(self) -> None:
        self.process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, ...]:
        """What it has printed, when it has ended."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, "it has not ended"
        return tuple(map(whole_text, self.printed))


def unnamed_file() -> int:
    """The descriptor of a new file that is gone when it is closed."""
    descriptor, path = mkstemp()
    os.unlink(path)
    return descriptor


def whole_text(descriptor: int) -> str:
    """What was written to a file, which is closed."""
    with os.fdopen(descriptor) as file:
        file.seek(0)
        return file.read()
