"""What follows from the shape of a segment alone: made once, and kept where recordings find it."""

# T queries · K keys · W distances · D width · E head width; D and E padded

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.config import ModelConfig
from rmt.gpu.heads import Seen, seen_of
from rmt.gpu.tiles import padded
from rmt.gpu.weight_gradients import sum_format
from rmt.nn.axis import Axis
from rmt.nn.positions import Relative, RelativeTable, Rotary, RotaryTable


class ShapeTables:
    """Axes, who sees whom, and positions, by the shapes of segments."""

    def __init__(self, config: ModelConfig, width: int, head: int, dtype: torch.dtype, device: torch.device):
        """`width` and `head` are padded; products are in `dtype`."""
        self.config, self.width, self.head, self.dtype, self.device = config, width, head, dtype, device
        self.axes: dict[tuple[int, ...], Axis] = {}
        self.intervals: dict[tuple[int, ...], Seen] = {}
        self.positions: dict[tuple[int, ...], tuple[Tensor, ...]] = {}

    def axis(self, spans: tuple[int, ...], build: Callable[[], Axis]) -> Axis:
        """The axis of some spans."""
        if spans not in self.axes:
            with torch.inference_mode(False), torch.no_grad():
                self.axes[spans] = build()
        return self.axes[spans]

    def seen(self, mask: Tensor, cache: int) -> Seen:
        """What the queries of a mask (T, K) see, behind `cache` rows."""
        key = (*mask.shape, cache)
        if key not in self.intervals:
            with torch.inference_mode(False):
                self.intervals[key] = seen_of(mask, cache > 0)
        return self.intervals[key]

    def sinusoids(self, axis: Axis) -> Tensor:
        """Relative positions: a row for each distance that a query sees a key at, (W, D)."""
        (table,) = self.position_table(axis, Relative)
        return table

    def rotations(self, axis: Axis) -> tuple[Tensor, ...]:
        """Rotary positions: cosines and sines, (K, E / 2)."""
        return self.position_table(axis, Rotary)

    def position_table(self, axis: Axis, scheme: Any) -> tuple[Tensor, ...]:
        """The plain model's table for as many queries and keys as an axis has, as far as needed, padded.

        Memory blocks of a model are always as long, so that these two numbers say what its mask is.
        """
        key = (*axis.mask.shape[-2:],)
        if key not in self.positions:
            with torch.inference_mode(False), torch.no_grad():
                plain = scheme(self.config.width, 1, self.config.head_width, 0.0)
                table = plain.to(self.device, sum_format(self.dtype))(axis)
                self.positions[key] = self.padded(table, axis.mask)
        return self.positions[key]

    def padded(self, table: RelativeTable | RotaryTable, mask: Tensor) -> tuple[Tensor, ...]:
        """Sinusoids as products multiply them, or cosines and sines of one half of a head."""
        if isinstance(table, RelativeTable):
            rows = table.rows[: distances_seen(mask)]
            return (F.pad(rows, (0, self.width - self.config.width)).to(self.dtype),)
        half = self.config.head_width // 2
        cosine, sine = (F.pad(angles[:, :half], (0, self.head // 2 - half)) for angles in table)
        return cosine.contiguous(), sine.contiguous()


def distances_seen(mask: Tensor) -> int:
    """How many of the distances K-1, K-2, … queries see keys at, by a mask (T, K), for products padded.

    Of the keys behind a query it sees only those of its memory block: half of all distances are for nobody.
    The host waits for a mask on a GPU, once for each shape.
    """
    queries, keys = mask.shape
    query, key = (torch.arange(count, device=mask.device) for count in (queries, keys))
    column = torch.where(mask, queries - 1 - query[:, None] + key, 0)
    return padded(int(column.max()) + 1, 8)
