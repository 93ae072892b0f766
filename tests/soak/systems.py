"""Hostile systems: full disks, folders that are gone or not to be written, clocks, two processes at once."""

import ctypes
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

from tests.soak.attempts import Attempt
from tests.soak.children import Child, Ending, run
from tests.soak.kills import CASE, Reference, fresh_case, gone_on, reference
from tests.soak.plugs import AtEvent, AtTime, Plug
from tests.soak.scenarios import OUT, possible

NOBODY = 65534
CLONE_NEWNS = 0x20000  # of unshare in Linux: mounts of this process alone
MS_REC_PRIVATE = 0x44000
ROOM = 2 << 20  # bytes of memory left at most; a tiny run may do with less


class LongestFile(Plug):
    """No file may become longer than this; the process is told, and lives."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def __repr__(self) -> str:
        return f"no file longer than {self.size} bytes"

    def arm(self) -> None:
        super().arm()
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))

    def disarm(self) -> None:
        super().disarm()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class LittleMemory(Plug):
    """The process can have only a little more memory than it has."""

    def __init__(self, room: int):
        super().__init__()
        self.room = room

    def __repr__(self) -> str:
        return f"{self.room} bytes of memory left"

    def arm(self) -> None:
        super().arm()
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + self.room, resource.RLIM_INFINITY))

    def disarm(self) -> None:
        super().disarm()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Powerless(Plug):
    """The process is a user's who may not write."""

    def __repr__(self) -> str:
        return "as nobody, in a folder of another"

    def arm(self) -> None:
        super().arm()
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)


class FolderGone(AtEvent):
    """The folder is removed, or moved, at an operation on files."""

    def __init__(self, event: int, folder: Path, is_moved: bool):
        super().__init__(event)
        self.folder, self.is_moved = folder, is_moved

    def __repr__(self) -> str:
        return f"{self.folder} {'moved' if self.is_moved else 'removed'} at operation {self.event}"

    def happened(self) -> None:
        if self.events != self.event or not self.folder.exists():
            return
        self.is_armed = False
        if self.is_moved:
            self.folder.rename(f"{self.folder}-elsewhere")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class ClockSetBack(AtTime):
    """The clock on the wall goes back by hours whenever it is asked; the process is killed as well."""

    def __repr__(self) -> str:
        return f"clock set back, {super().__repr__()}"

    def arm(self) -> None:
        super().arm()
        began, asked = time.time(), iter(range(1, 1 << 30))
        time.time = lambda: began - 3600.0 * next(asked)
        time.time_ns = lambda: int(time.time() * 1e9)


class SmallDisk(Plug):
    """The folder is a disk of its own with so many bytes, which this process alone sees."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def __repr__(self) -> str:
        return f"a disk of {self.size} bytes"

    def arm(self) -> None:
        Path(OUT).mkdir(exist_ok=True)
        library = ctypes.CDLL(None, use_errno=True)
        options = f"size={self.size}".encode()
        mounted = (
            library.unshare(CLONE_NEWNS),
            library.mount(None, b"/", None, MS_REC_PRIVATE, None),
            library.mount(b"tmpfs", OUT.encode(), b"tmpfs", 0, options),
        )
        self.is_mounted = not any(mounted)
        super().arm()


def refused_or_done(expected: Reference, plug: Plug) -> Iterator[Attempt]:
    """A run under a plug ends with a line or as ever; without it, it goes on and ends as ever."""
    ending = run(words := expected.scenario.words(CASE), CASE, plug)
    yield Attempt(tuple(words), told(ending), f"{plug}: exit code {ending.code}: {ending.errors}")
    yield gone_on(expected, [plug])


def told(ending: Ending) -> str:
    """What came of it: an error is one line that names what to do."""
    if ending.is_hang:
        return "hang"
    if "Traceback" in ending.errors:
        return "traceback"
    if ending.code == 0:
        return "done"
    return "refused" if ending.code in (1, 2) and ending.last_line.startswith("rmt: ") else "untidy"


def full_disk(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    yield from refused_or_done(expected, LongestFile(draw.randrange(1, expected.largest)))


def small_disk(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    yield from refused_or_done(expected, SmallDisk(draw.choice((4096, 16384, 40960, 131072))))


def little_memory(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    yield from refused_or_done(expected, LittleMemory(draw.randrange(ROOM)))


def removed_folder(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    event = draw.randrange(1, expected.ending.events)
    gone = FolderGone(event, Path(OUT), draw.random() < 0.5)
    yield from refused_or_done(expected, gone)


def read_only(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    """A new run, or one that was begun, in folders that are not its user's."""
    if draw.random() < 0.5:
        run(expected.scenario.words(CASE), CASE, AtEvent(draw.randrange(1, expected.ending.events)))
    yield from refused_or_done(expected, Powerless())


def clock_set_back(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    """A killed run whose files are from the future goes on in the past."""
    run(expected.scenario.words(CASE), CASE, ClockSetBack(draw.uniform(0, expected.ending.seconds)))
    future = time.time() + 1e6
    for path in (CASE / OUT).rglob("*"):
        os.utime(path, (future - draw.random() * 1e6, future - draw.random() * 1e6))
    yield gone_on(expected, [Plug()])


def two_processes(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    """A second process on the folder of one that sleeps is refused, and the first ends as ever."""
    first = Child(
        words := expected.scenario.words(CASE),
        CASE,
        AtEvent(draw.randrange(expected.ending.events // 4, expected.ending.events), signal.SIGSTOP),
    )
    os.waitpid(first.pid, os.WUNTRACED)
    second = run(words, CASE)
    yield Attempt(tuple(words), told(second), f"beside another: exit code {second.code}: {second.errors}")
    os.kill(first.pid, signal.SIGCONT)
    ending = first.wait()
    yield Attempt(tuple(words), told(ending), f"the first of two: exit code {ending.code}: {ending.errors}")
    yield gone_on(expected, [Plug()])


KINDS: tuple[Callable[[Reference, random.Random], Iterator[Attempt]], ...] = (
    *(full_disk, small_disk, little_memory, removed_folder, read_only, clock_set_back, two_processes),
)


def system_attempts(count: int, seed: int) -> Iterator[Attempt]:
    """So many cases, all kinds in turn."""
    draw = random.Random(seed)
    scenarios = [scenario for scenario in possible() if scenario.is_quick]
    for _, kind in zip(range(count), cycle(KINDS), strict=False):
        expected = reference(draw.choice(scenarios))
        fresh_case(expected.scenario)
        for attempt in kind(expected, draw):
            yield attempt._replace(detail=f"{kind.__name__}: {attempt.detail}")
