"""What `rmt bench` measures beside training steps: sessions, and commands from their start to their end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmt.bench.configurations import ENWIK8, KINDS
from rmt.errors import ConfigError

if TYPE_CHECKING:
    from rmt.bench.measure import Row

# what `start` runs: the acceptance of the fast path on a GPU, seconds of work on a CPU
STARTED = {
    "cuda": {
        "start-copy": "train copy --segments 9 --length 24 --size paper --target 0.99",
        "start-enwik8": "train text --size enwik8-base --steps 50",
    },
    "cpu": {
        "start-copy": "train copy --length 4 --steps 20 --device cpu",
        "start-text": "train text --steps 20 --device cpu",
    },
}
TEXT_TOKENS = 400_000  # of made text that `start` trains on; a twelfth of it is tested on


class Conditions(NamedTuple):
    """Where and how often something is measured."""

    device: str
    updates: int
    folder: Path  # for made text


def rows_of(kind: str, conditions: Conditions) -> Iterator[Row]:
    """The rows of one of `KINDS`."""
    return MEASURED[kind](conditions)


def streams(conditions: Conditions) -> Iterator[Row]:
    import torch

    from rmt.bench.stream import stream_rows

    return stream_rows(torch.device(conditions.device), 20 * conditions.updates)


def starts(conditions: Conditions) -> Iterator[Row]:
    from rmt.bench.start import start_rows
    from rmt.bench.text import made_text

    for name, words in STARTED[conditions.device].items():
        command = [sys.executable, "-m", "rmt", *words.split()]
        if "text" in command:
            data = made_text(ENWIK8, conditions.folder / "started", TEXT_TOKENS)
            command += ["--data", str(Path(data).absolute())]
        yield from start_rows(name, command)


def wrapped(conditions: Conditions) -> Iterator[Row]:
    import torch

    from rmt.bench.wrapped import wrapped_rows

    return wrapped_rows(torch.device(conditions.device), conditions.updates)


MEASURED: dict[str, Callable[[Conditions], Iterator[Row]]] = {
    "stream": streams,
    "wrapped": wrapped,
    "start": starts,
}


def notes_about(kind: str, device: str) -> list[str]:
    """What exactly is measured, for the page."""
    if kind == "start":
        return [f"{name}: rmt {words}" for name, words in STARTED[device].items()]
    if kind == "wrapped":
        return ["at-once: the plain model on all segments as one batch; in-turn: one after another"]
    from rmt.bench.stream import MEMORY, SIZES

    length, sizes = SIZES[device]
    size = f"{sizes['layers']} layers × {sizes['width']}, rotary positions, memory {MEMORY}"
    return [f"{kind}: a session of an RMT, {size}, in segments of {length}"]


def refuse_settings(names: Sequence[str], settings: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise for what has no effect on a kind: settings but for the device, options beside kinds only."""
    kinds = [name for name in names if name in KINDS]
    needless = {name: "" for name in settings if name != "device"}
    if len(kinds) == len(names):
        needless |= {name: f"={value}" for name, value in options.items()}
    for name, value in needless.items() if kinds else ():
        raise ConfigError(
            f"{name}{value} has no effect on {kinds[0]}, which is measured as it is; leave one of them out"
        )
