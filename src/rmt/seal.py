"""What proves that stored things are whole: checksums of files, and records that carry their own.

A sealed record is a JSON mapping with the key `sha256`, the checksum of all its other entries. A record that
has none, of an earlier release or edited on purpose, is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rmt.errors import CheckpointError
from rmt.jsonfile import parse_json

T = TypeVar("T")
SEAL = "sha256"
MAX_RECORD_BYTES = 1 << 26  # corpus.json of WikiText-103 has 0.3 MB, result.json 5 KB


class NotWhole(CheckpointError):
    """A stored file that is not as it was written."""


def checksum(path: Path, method: str = "sha256") -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, method).hexdigest()


def record_checksum(record: Any) -> str:
    """The checksum of what JSON can hold, whatever the order of keys and the spelling."""
    plain = json.loads(json.dumps(record, default=str))  # every key is text
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with its checksum."""
    return {**record, SEAL: record_checksum(record)}


def unsealed(record: Mapping[str, Any], path: Path, remedy: str) -> dict[str, Any]:
    """A record without its checksum, which it must match if it has one."""
    content = {key: value for key, value in record.items() if key != SEAL}
    if SEAL in record and record[SEAL] != record_checksum(content):
        raise NotWhole(f"{str(path)!r} is damaged: its content does not match its {SEAL}; {remedy}")
    return content


def load_record(path: Path, remedy: str) -> dict[str, Any]:
    """The mapping in a JSON file, unsealed; what cannot be that is damage, in one line."""
    try:
        if path.stat().st_size > MAX_RECORD_BYTES:
            raise ValueError(f"{path.stat().st_size:,} bytes, at most {MAX_RECORD_BYTES:,} are read")
        record = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise NotWhole(f"{str(path)!r} is damaged ({reason}); {remedy}") from None
    if not isinstance(record, dict):
        raise NotWhole(f"{str(path)!r} is damaged (it holds no mapping); {remedy}")
    return unsealed(record, path, remedy)


def newest_whole(
    paths: Iterable[Path], load: Callable[[Path], T], warn: Callable[[str], None], kind: str
) -> T | None:
    """What is loaded of the first path that is whole, newest first; damaged ones are named."""
    for path in paths:
        try:
            return load(path)
        except CheckpointError as error:
            warn(f"{error}; going back to the {kind} before it")
    return None
