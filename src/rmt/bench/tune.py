"""Which constants of a kernel are the fastest on the card at hand: every candidate timed, the best kept.

Kernels take sizes of tiles, warps and stages from a table by their name when they are called. To try others,
the table's entry is replaced for as long as that takes. What the best candidate computes is checked against
what the present constants compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from rmt.bench.measure import Spread, spread
from rmt.errors import RMTError

Constants = dict[str, int]  # of a kernel, by name: rows, warps …
Table = MutableMapping[str, Constants]  # kernel: its constants
WARM_UP = 3  # calls that compile and fill caches
BLOCKS, CALLS = 5, 20  # a median of blocks of so many calls each, a few ms for a kernel of 50 µs
TOLERANCE = 0.02  # of the norm: results in bfloat16 that were summed up in another order


class TunedKernel(NamedTuple):
    """A kernel whose constants can be chosen."""

    name: str  # in the table
    candidates: Sequence[Constants]
    run: Callable[[], Tensor]  # call it on the paper's shapes, once; returns what it computed


class Trial(NamedTuple):
    """Constants of a kernel, and how it did with them."""

    constants: Constants
    time: Spread | None  # seconds of a call; none = it failed
    failure: str = ""  # why
    current: bool = False  # they are what the table has


Timer = Callable[[Callable[[], Tensor]], list[float]]


def combinations(**choices: Sequence[int]) -> list[Constants]:
    """All constants that can be made of some choices for each."""
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def trials(kernel: TunedKernel, table: Table, times_of: Timer) -> Iterator[Trial]:
    """The present constants first, which must work, then every other candidate."""
    current = table[kernel.name]
    expected = kernel.run()
    yield Trial(current, spread(times_of(kernel.run)), current=True)
    for candidate in kernel.candidates:
        constants = {**current, **candidate}
        if constants == current:
            continue
        with replaced(table, kernel.name, constants):
            yield attempt(kernel, constants, expected, times_of)


def attempt(kernel: TunedKernel, constants: Constants, expected: Tensor, times_of: Timer) -> Trial:
    """Time a candidate; what a card cannot do, or does wrongly, is a line of the table."""
    try:
        error = distance(kernel.run(), expected)
        if not error <= TOLERANCE:
            return Trial(constants, None, f"another result: {error:.1e} of its norm")
        return Trial(constants, spread(times_of(kernel.run)))
    except Exception as error:  # a compiler has many ways to say that a tile is too large
        return Trial(constants, None, str(error).splitlines()[0] if str(error) else type(error).__name__)


def distance(result: Tensor, expected: Tensor) -> float:
    """How far a result is from another, as a part of the other's norm."""
    wanted = expected.double()
    return float((result.double() - wanted).norm() / wanted.norm().clamp(min=1e-30))


@contextmanager
def replaced(table: Table, name: str, constants: Constants) -> Iterator[None]:
    """While this is open, a kernel has other constants."""
    before = table[name]
    table[name] = constants
    try:
        yield
    finally:
        table[name] = before


def best(tried: Sequence[Trial]) -> Trial:
    """The fastest by its median; the present constants where nothing is faster."""
    timed = [(trial.time.median, not trial.current, trial) for trial in tried if trial.time is not None]
    if not timed:
        raise RMTError("no candidate could be timed; look at the failures, and mend the kernel")
    return min(timed, key=lambda entry: entry[:2])[2]


def cuda_times(run: Callable[[], Tensor]) -> list[float]:
    """Seconds of a call in each block, recorded as in an update: the host's part is not in them."""
    for _ in range(WARM_UP):
        run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    pairs = []
    for _ in range(BLOCKS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(CALLS):
            graph.replay()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1000 / CALLS for start, end in pairs]
