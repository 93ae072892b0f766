"""A command in a process of its own, forked from this one, that something may end: how it ended."""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.cli.main import main
from tests.soak.attempts import Screen
from tests.soak.plugs import Plug
from tests.train.processes import SOURCE

SECONDS = 300.0  # that a tiny command may take on a busy machine
POLL_SECONDS = 0.002
STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Ending(NamedTuple):
    """How a process ended."""

    code: int  # exit code, or the number of the signal that killed it, negative
    output: str
    errors: str
    events: int  # store operations
    seconds: float
    is_hang: bool

    @property
    def was_killed(self) -> bool:
        return self.code < 0 and not self.is_hang

    @property
    def last_line(self) -> str:
        return self.errors.splitlines()[-1] if self.errors else ""


class Child:
    """`rmt WORDS`, running in a folder."""

    def __init__(self, words: Sequence[str], folder: Path, plug: Plug):
        self.plug, self.begin = plug, time.monotonic()
        sys.stdout.flush()
        self.receiver, sender = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # none comes before the process is itself
        self.pid = os.fork()
        if not self.pid:
            os.close(self.receiver)
            enter(words, folder, plug, sender)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        os.close(sender)

    def wait(self, seconds: float = SECONDS) -> Ending:
        """Its ending, at most so many seconds after it began; the plug is pulled when it is due."""
        while True:
            elapsed = time.monotonic() - self.begin
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                break
            if elapsed > seconds:
                os.kill(self.pid, signal.SIGKILL)
                _, status = os.waitpid(self.pid, 0)
                break
            self.plug.watch(self.pid, elapsed)
            time.sleep(POLL_SECONDS)
        with os.fdopen(self.receiver, "rb") as pipe:
            message = pipe.read()
        report = json.loads(message) if message else {"output": "", "errors": "", "events": 0}
        return Ending(os.waitstatus_to_exitcode(status), **report, seconds=elapsed, is_hang=elapsed > seconds)


def run(words: Sequence[str], folder: Path, plug: Plug | None = None) -> Ending:
    """How `rmt WORDS` ends in a folder."""
    return Child(words, folder, plug or Plug()).wait()


def enter(words: Sequence[str], folder: Path, plug: Plug, sender: int) -> None:
    """What the forked process does: it never returns."""
    code, output, errors = 1, Screen(), Screen()
    try:
        sys.dont_write_bytecode = True
        sys.stdin, sys.stdout, sys.stderr = Screen(), output, errors
        for number in (*STOPS, signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        os.chdir(folder)
        os.environ["PYTHONPATH"] = SOURCE  # for processes that it starts
        plug.arm()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python starts a command
        code = int(main(list(words)))
    except BaseException:
        errors.write(traceback.format_exc())
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        plug.disarm()
        report: dict[str, Any] = {"output": output.text(), "errors": errors.text(), "events": plug.events}
        os.write(sender, json.dumps(report).encode()[-60_000:])  # at most what a pipe holds
        os._exit(code)
