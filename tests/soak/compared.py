"""What two runs of a command left, compared bit for bit but for what clocks wrote."""

import json
from pathlib import Path
from typing import Any

from rmt.experiments.cells import WALL_SECONDS

# entries that clocks write, and checksums of them
CLOCKS = {"seconds", "tokens_per_second", "first_update_seconds", WALL_SECONDS, "sha256", "environment"}
SECONDS_OF = {"trainer"}  # checksums of records that hold seconds


def differences(mine: Path, theirs: Path) -> list[str]:
    """The files that differ, or that only one side has; of checkpoints, those that last and best name."""
    names = [kept_files(side) for side in (mine, theirs)]
    lacking = sorted(names[0] ^ names[1])
    return [f"{name} is on one side only" for name in lacking] + [
        f"{name} differs"
        for name in sorted(names[0] & names[1])
        if content(mine / name) != content(theirs / name)
    ]


def kept_files(folder: Path) -> set[str]:
    """The names of all files but logs, and but checkpoints that no pointer names: a stop makes one more."""
    if folder.is_file():
        return {""}
    files = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".log"}
    return {str(path.relative_to(folder)) for path in files if not is_between(path)}


def is_between(file: Path) -> bool:
    """Whether a file belongs to a checkpoint that is neither the last nor the best."""
    for folder in file.parents:
        pointers = [folder.parent / name for name in ("last", "best")]
        if folder.name.startswith("step_") and pointers[0].is_file():
            named = {pointer.read_text().strip() for pointer in pointers if pointer.is_file()}
            return folder.name not in named
    return False


def content(file: Path) -> Any:
    """What a file says, without the time it took."""
    data = file.read_bytes()
    if file.suffix == ".json":
        return timeless(json.loads(data))
    if file.suffix == ".jsonl":
        return [timeless(json.loads(line)) for line in data.splitlines()]
    if data[8:9] == b"{":  # safetensors, whose header has no order
        size = int.from_bytes(data[:8], "little")
        return json.loads(data[8 : 8 + size]), data[8 + size :]
    return data


def timeless(tree: Any, within: str = "") -> Any:
    """A tree without the entries of clocks."""
    if isinstance(tree, list):
        return [timeless(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    left_out = CLOCKS | (SECONDS_OF if within == "checksums" else set())
    return {key: timeless(value, key) for key, value in tree.items() if key not in left_out}
