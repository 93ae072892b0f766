"""Cases shared among processes: each has a workspace of its own, and what hangs or dies is replaced."""

import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.soak.attempts import CURRENT, Attempt, Screen
from tests.soak.workspace import add_backbone, add_other_formats, make_workspace

SILENCE_SECONDS = 300.0  # without a case, of a process on a busy machine
ROOM = 8 << 30  # bytes that a process may have more than it has: what asks for more is told so
SEED_STRIDE = 1000  # between the seeds of processes that follow each other

Cases = Callable[[int, int], Iterator[Attempt]]  # of a count and a seed


class Share(NamedTuple):
    """So many cases of one kind, for one process."""

    kind: str
    count: int
    seed: int


class Worker:
    """A process that works on shares, in a folder of its own, and sends what came of each case."""

    def __init__(self, shares: Sequence[Share], parts: dict[str, Cases], folder: Path):
        self.left = {share.kind: share for share in shares}
        self.parts, self.folder, self.heard = parts, folder, time.monotonic()
        sys.stdout.flush()
        receiver, sender = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(receiver)
            work(self.left.values(), parts, folder, sender)
        os.close(sender)
        self.pipe = os.fdopen(receiver, "rb")
        self.unread, self.is_over = b"", False

    def messages(self) -> Iterator[tuple[str, Attempt]]:
        """What it has sent since it was last asked."""
        sent = os.read(self.pipe.fileno(), 1 << 16)
        self.heard, self.is_over = time.monotonic(), not sent
        *lines, self.unread = (self.unread + sent).split(b"\n")
        for line in lines:
            kind, words, *rest = json.loads(line)
            share = self.left[kind]
            self.left[kind] = share._replace(count=share.count - 1)
            yield kind, Attempt(tuple(words), *rest)

    @property
    def is_silent(self) -> bool:
        return time.monotonic() - self.heard > SILENCE_SECONDS

    def end(self) -> Attempt | None:
        """Wait for it, or end it where it is silent; a case that it died of, if it did."""
        if is_silent := self.is_silent:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pipe.close()
        if code == 0:
            return None
        words = json.loads((self.folder.parent / CURRENT).read_text())
        return Attempt(tuple(words), "hang" if is_silent else "traceback", f"the process ended with {code}")

    def replacement(self) -> "Worker":
        """Another process for what is left, with other cases."""
        shares = [
            share._replace(count=share.count - 1, seed=share.seed + SEED_STRIDE)
            for share in self.left.values()
            if share.count > 1
        ]
        return Worker(shares, self.parts, self.folder)


def work(shares: Sequence[Share], parts: dict[str, Cases], folder: Path, sender: int) -> None:
    """What a worker does: it never returns."""
    code = 1
    try:
        sys.stdout = Screen()
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, resource.RLIM_INFINITY))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folder.parent / "whole", folder)
        os.chdir(folder)
        for share in shares:
            for attempt in parts[share.kind](share.count, share.seed):
                message = json.dumps([share.kind, *attempt[:2], attempt.detail[-4000:]]).encode()
                os.write(sender, message + b"\n")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def shared(
    counts: dict[str, int], parts: dict[str, Cases], seed: int, jobs: int, folder: Path
) -> Iterator[tuple[str, Attempt]]:
    """Each case of all kinds, as they come, from so many processes."""
    folder.chmod(0o755)  # for cases of another user
    workers = []
    for job in range(jobs):
        shares = [
            Share(kind, count // jobs + (job < count % jobs), seed * jobs + job)
            for kind, count in counts.items()
        ]
        workspace = folder / str(job) / "a" / "b" / "workspace"  # odd paths such as ../.. stay inside
        workspace.parent.mkdir(parents=True)
        shutil.copytree(folder / "whole", workspace.parent / "whole", symlinks=True)
        workers.append(Worker([share for share in shares if share.count], parts, workspace))
    while workers:
        readable, _, _ = select.select([worker.pipe for worker in workers], [], [], 1.0)
        for worker in list(workers):
            if worker.pipe in readable:
                yield from worker.messages()
            if worker.is_over or worker.is_silent:
                workers.remove(worker)
                if (died_of := worker.end()) is not None:
                    yield next(iter(worker.left)), died_of
                    workers.append(worker.replacement())


def make_whole(folder: Path) -> None:
    """The workspace that all copy."""
    folder.mkdir(parents=True)
    before = os.getcwd()
    os.chdir(folder)
    try:
        make_workspace()
        if find_spec("transformers") is not None:
            add_backbone()
        add_other_formats()
    finally:
        os.chdir(before)
