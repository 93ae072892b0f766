"""Sessions: how fast endless input is taken in, by one row and by many at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from rmt.bench.flops import forward
from rmt.bench.measure import Row, alone, block_times, peak_memory, product_rate, spread
from rmt.core import presets
from rmt.core.config import ModelConfig
from rmt.core.model import SegmentModel
from rmt.infer.session import Session

VOCABULARY, MEMORY = 256, 10  # tokens: bytes, and the memory of the paper's language models
FED_AT_ONCE = 16  # segments that one call of `feed` is given
WARM_UP = 2  # calls that compile and record


class StreamSize(NamedTuple):
    """The model and the segments of a session."""

    segment_length: int
    model: dict[str, Any]


SIZES = {
    "cuda": StreamSize(512, {"layers": 12, "heads": 8, "head_width": 64, "width": 512, "inner_width": 2048}),
    "cpu": StreamSize(64, {"layers": 2, "heads": 4, "head_width": 32, "width": 64, "inner_width": 128}),
}
BATCHES = (1, 32)  # rows of a session


def stream_rows(device: torch.device, steps: int) -> Iterator[Row]:
    """A session of each number of rows; a step is one segment of all rows."""
    for batch in BATCHES:
        with alone("stream"):
            yield streamed(device, batch, steps)


def streamed(device: torch.device, batch: int, steps: int) -> Row:
    """Whole segments of random tokens, fed from a tensor on the host."""
    length, sizes = SIZES[device.type]
    config = presets.rmt(MEMORY, vocabulary=VOCABULARY, positions="rotary", **sizes)
    session = open_session(config, device, length, batch)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (batch, FED_AT_ONCE * length), generator=generator)

    def feed() -> int:
        session.feed(tokens)
        return FED_AT_ONCE

    for _ in range(WARM_UP):
        feed()
    times, peak = block_times(feed, steps, device), peak_memory(device)
    way = f"{batch} row{'s' * (batch > 1)}"
    flops = forward(config, length, batch).whole
    return Row("stream", way, spread(times), batch * length, flops, product_rate(device), peak, segments=1)


def open_session(config: ModelConfig, device: torch.device, length: int, batch: int) -> Session:
    """A session of a model with random weights, in the precision that a session has unless it is told."""
    torch.manual_seed(0)
    return Session(SegmentModel(config).eval().to(device), segment_length=length, batch=batch)
