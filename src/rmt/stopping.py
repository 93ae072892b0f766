"""Signals that ask a command to stop: noted by a handler, answered where a run can be saved.

Handlers are installed by command lines only, with `handling_signals`. What saves its work asks `REQUEST`,
which never has a signal where nothing handles them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rmt.errors import RMTError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PARENT = "RMT_PARENT"  # in a worker's environment, the process that started it
PR_SET_PDEATHSIG = 1  # of prctl in Linux
OF_SIGNALS = 128  # added to a signal's number, it is the exit code that shells know


class Stopped(RMTError):
    """A signal has stopped a command, and what it had done is saved."""

    def __init__(self, number: int, saved: str):
        super().__init__(f"stopped by {signal.Signals(number).name}; {saved}")
        self.number, self.exit_code = number, OF_SIGNALS + number


class Interrupted(KeyboardInterrupt):
    """A signal stops a command at once: it has nothing to save, or it was asked a second time."""

    def __init__(self, number: int):
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.exit_code = OF_SIGNALS + number


class StopRequest:
    """The signal that has asked this process to stop, if one has.

    It is noted while what runs has `deferred` it, to be answered at the next border, where all can be saved.
    Elsewhere a signal stops at once, and so does a second one everywhere.
    """

    def __init__(self) -> None:
        self.signal = 0  # 0 = none
        self.is_deferred = False
        self.was_raised = False

    def __call__(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal."""
        again, self.signal = self.signal != 0, self.signal or number
        if again or not self.is_deferred:
            self.was_raised = True
            raise Interrupted(number)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """While this is open, a first signal waits for a border; one that found none stops behind it."""
        with self.set_deferred(True):
            yield
        if self.signal and not self.is_deferred:
            raise Interrupted(self.signal)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """While this is open, signals stop at once again: nothing is being worked on."""
        with self.set_deferred(False):
            if self.signal:
                raise Interrupted(self.signal)
            yield

    @contextmanager
    def set_deferred(self, value: bool) -> Iterator[None]:
        before, self.is_deferred = self.is_deferred, value
        try:
            yield
        finally:
            self.is_deferred = before


REQUEST = StopRequest()  # signals are the whole process's


@contextmanager
def handling_signals() -> Iterator[None]:
    """While this is open, SIGINT, SIGTERM and SIGHUP ask to stop.

    A signal that is ignored stays so (nohup). In another thread than the main one nothing is changed: there,
    Python has no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    installed = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    try:
        for number in installed:
            signal.signal(number, REQUEST)
        yield
    finally:
        for number, handler in installed.items():
            signal.signal(number, handler)
        REQUEST.signal, REQUEST.was_raised = 0, False


@contextmanager
def reraising_interruptions() -> Iterator[None]:
    """Whatever error a library has made of an interruption, raise the interruption."""
    try:
        yield
    except Stopped:
        raise
    except Exception as error:
        if REQUEST.was_raised:
            raise Interrupted(REQUEST.signal) from error
        raise


def hang_up_with_parent() -> None:
    """Let the end of the process that started this one be a SIGHUP to it, where the system can (Linux).

    If `PARENT` names that process, it may have ended before, too.
    """
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGHUP))
    if os.environ.get(PARENT, str(os.getppid())) != str(os.getppid()):
        signal.raise_signal(signal.SIGHUP)
