"""Disks that are full, and masks of file modes."""

import os
import resource
from contextlib import contextmanager


@contextmanager
def full_disk(bytes_left: int):
    """No file may become longer than this, which is as near as a test comes to a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def umask(mask: int):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
