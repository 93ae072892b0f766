"""The store: what must not be half there is written beside its path, synced with its folder and renamed.

What is being written, and what a killed process left of it, is the business of `rmt.partial`; what proves
that it is whole, of `rmt.seal`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.errors import RMTError
from rmt.partial import claim, new_file, new_folder

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


def write_page(path: Path, text: str) -> None:
    """Write a text where a user wants it: whole, behind links, or into what is no file, such as a pipe."""
    if path.exists() and not path.is_file():
        with writing(path):
            path.write_text(text, encoding="utf-8")
        return
    write_whole(path.resolve() if path.is_symlink() else path, text)


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
