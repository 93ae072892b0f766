"""Checksums of token files: all of a file, or of a very large one the size and blocks all over it.

A corpus is opened at every start of a run. SHA-256 takes about 0.3 s for 100 MB, so files up to 512 MB, which
all published corpora here are, are always summed whole; of larger ones 64 MB are, in blocks from the first
byte to the last. `rmt data check` sums all of any file.
"""

from __future__ import annotations

import hashlib
import time
from functools import lru_cache
from pathlib import Path

from rmt.seal import checksum

MAX_WHOLE_BYTES = 1 << 29  # summed in 1.5 s; WikiText-103 has 412 MB of ids to train on
BLOCKS = 1024
BLOCK_BYTES = 1 << 16
SETTLED_SECONDS = 2.0  # a file changed later than that could change again without another time of change


def is_large(file: Path) -> bool:
    return file.stat().st_size > MAX_WHOLE_BYTES


def sampled_checksum(file: Path) -> str:
    """The checksum of the size of a file and of blocks at equal distances, from the first to the last."""
    size = file.stat().st_size
    total = hashlib.sha256(str(size).encode())
    last = max(size - BLOCK_BYTES, 0)
    with file.open("rb") as opened:
        for start in sorted({last * number // (BLOCKS - 1) for number in range(BLOCKS)}):
            opened.seek(start)
            total.update(opened.read(BLOCK_BYTES))
    return total.hexdigest()


def known_checksum(file: Path, sampled: bool = False) -> str:
    """The checksum of a file, computed again in this process only after the file has changed."""
    status = file.stat()
    compute = remembered if time.time() - status.st_mtime > SETTLED_SECONDS else remembered.__wrapped__
    return compute(file.resolve(), (status.st_ino, status.st_size, status.st_mtime_ns), sampled)


@lru_cache(maxsize=256)
def remembered(file: Path, version: tuple[int, ...], sampled: bool) -> str:
    return sampled_checksum(file) if sampled else checksum(file)
