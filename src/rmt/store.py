"""The store: what must not be half there is written beside its path, synced with its folder and renamed.

A file or folder is written as `.NAME.partial`, which the writing process holds locked: what a killed process
left is recognised by its free lock and removed by the next. What proves that it is whole is in `rmt.seal`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.errors import RMTError

MAX_WRITERS = 100  # of one file at once
RENAME_EXCHANGE = 2  # of renameat2 in Linux: both names stay there all the time
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)  # file systems that have none


class NotWritten(RMTError, OSError):
    """What the system has against writing; what was there before is as it was."""

    def __str__(self) -> str:
        full = "free some space and start again: what was there is kept"
        remedy = full if self.errno in FULL else "make it writable, or name another place"
        return f"{self.filename!r} cannot be written ({self.strerror}); {remedy}"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in a line what the system has against writing a path."""
    try:
        yield
    except NotWritten:
        raise
    except OSError as error:
        raise NotWritten(error.errno, error.strerror or str(error), str(path)) from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file: whoever looks, and whenever power fails, there is the old content or the new one."""
    data = content.encode() if isinstance(content, str) else content
    with writing(path):
        partial, descriptor = claim(path, path.parent, new_file)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(descriptor)
            os.replace(partial, path)
        except Exception:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        sync_folder(path.parent)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON file whole."""
    write_whole(path, json.dumps(record, indent=1) + "\n")


def append_line(path: Path, line: str) -> None:
    """Add a line to a file; a line cut short is left to whoever loads it."""
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


@contextmanager
def whole_folder(path: Path, replace: bool = True) -> Iterator[Path]:
    """A new folder to fill, which at the end takes the place of `path`; after an error nothing has changed.

    Without `replace`, a folder that holds anything by then is an error.
    """
    with writing(path):
        partial, descriptor = claim(path, existing(path.absolute().parent), new_folder)
        try:
            yield partial
            settle(partial)
            path.parent.mkdir(parents=True, exist_ok=True)
            put(partial, path, replace)
        except Exception:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        finally:
            os.close(descriptor)
        sync_folder(path.parent)


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
    return unfollowed(str(path), os.O_RDONLY | os.O_DIRECTORY)


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


def settle(folder: Path) -> None:
    """Flush all that is in a new folder to the disk; files get the mode that the user's umask gave it."""
    mode = folder.stat().st_mode & 0o666
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            sync_folder(path)
            continue
        path.chmod(mode)
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def put(partial: Path, path: Path, replace: bool) -> None:
    """Rename a whole folder to its path; one that it replaces is deleted after that."""
    try:
        partial.rename(path)
    except OSError as error:
        if not replace or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        former = partial
        if not exchange(partial, path):
            former = path.with_name(f".{path.name}.former")
            path.rename(former)
            partial.rename(path)
        shutil.rmtree(former, ignore_errors=True)


def exchange(first: Path, second: Path) -> bool:
    """Let two paths change places in one go, where the system can."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    here = -100  # AT_FDCWD
    names = (here, os.fsencode(first), here, os.fsencode(second), RENAME_EXCHANGE)
    return renameat2 is not None and renameat2(*names) == 0


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists: files made there can be renamed to the path."""
    return next(above for above in (path.absolute(), *path.absolute().parents) if above.exists())
