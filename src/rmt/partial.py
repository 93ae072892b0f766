"""What is being written: `.NAME.partial` beside NAME, new, no link, and locked by the process that writes it.

What a killed process left is known by its lock being free, and removed by whoever writes the same next.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

MAX_WRITERS = 100  # of one file at once


def claim(path: Path, beside: Path, make: Callable[[Path], int]) -> tuple[Path, int]:
    """A new file or folder that will be `path`, and the descriptor that holds it locked."""
    for number in range(MAX_WRITERS):
        partial = beside / f".{path.name}.partial{f'-{number}' if number else ''}"
        remove_abandoned(partial)
        try:
            descriptor = make(partial)
        except FileExistsError:
            continue  # another process writes the same
        if lock(descriptor) and is_at(descriptor, partial):
            return partial, descriptor
        os.close(descriptor)  # it was taken for abandoned in between
    raise FileExistsError(errno.EEXIST, f"{MAX_WRITERS} others are writing it", str(path))


def new_file(path: Path) -> int:
    return unfollowed(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def new_folder(path: Path) -> int:
    path.mkdir()
    try:
        return unfollowed(str(path), os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # taken for abandoned in between, by one who now makes its own
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None


def unfollowed(path: str, flags: int) -> int:
    """Open a file that is no link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def lock(descriptor: int) -> bool:
    """Whether this process is alone with a file; where there are no locks, it is."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def remove_abandoned(partial: Path) -> None:
    """Remove what a killed process left; a link is removed, never followed, and what is in use stays."""
    try:
        descriptor = unfollowed(str(partial), os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError:
        if partial.is_symlink():
            partial.unlink()
        return
    try:
        if not (lock(descriptor) and is_at(descriptor, partial)):
            return
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink()
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove whatever killed processes left half-written in a folder."""
    for partial in folder.glob(".*.partial*"):
        remove_abandoned(partial)
