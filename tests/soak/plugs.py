"""Ways to end a process: at a time, at an operation on files, in the middle of a write."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

# of Python's audit events, those that change what is on the disk
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.truncate"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Plug:
    """Nothing ends the process; its operations on files are counted."""

    def __init__(self) -> None:
        self.events, self.is_armed = 0, False

    def __repr__(self) -> str:
        return "nothing"

    def arm(self) -> None:
        """Called in the process that is to be ended."""
        self.is_armed = True
        sys.addaudithook(self.audit)
        os.fsync = around(os.fsync, self.count)

    def disarm(self) -> None:
        self.is_armed = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
            self.count()

    def count(self) -> None:
        if self.is_armed:
            self.events += 1
            self.happened()

    def happened(self) -> None:
        """Called behind each operation."""

    def watch(self, process: int, elapsed: float) -> None:
        """Called now and then by the process that waits."""


class AtEvent(Plug):
    """A signal when so many operations on files have begun."""

    def __init__(self, event: int, number: int = signal.SIGKILL):
        super().__init__()
        self.event, self.number = event, number

    def __repr__(self) -> str:
        return f"{signal.Signals(self.number).name} at operation {self.event}"

    def happened(self) -> None:
        if self.events == self.event:
            os.kill(os.getpid(), self.number)


class AtTime(Plug):
    """A signal after so many seconds."""

    def __init__(self, seconds: float, number: int = signal.SIGKILL):
        super().__init__()
        self.seconds, self.number, self.is_sent = seconds, number, False

    def __repr__(self) -> str:
        return f"{signal.Signals(self.number).name} after {self.seconds:.3f} s"

    def watch(self, process: int, elapsed: float) -> None:
        if elapsed >= self.seconds and not self.is_sent:
            self.is_sent = True
            os.kill(process, self.number)


class AtByte(Plug):
    """The kernel ends the process where a file would become longer than so many bytes: within a write."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def __repr__(self) -> str:
        return f"killed at byte {self.size} of a file"

    def arm(self) -> None:
        super().arm()
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))


def around(function: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    """A function that notes its begin and its end."""

    def noted(*arguments: Any) -> Any:
        note()
        result = function(*arguments)
        note()
        return result

    return noted
