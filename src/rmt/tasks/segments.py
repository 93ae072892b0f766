"""Input and output sequences are split into segments and processed by models sequentially (section 4)."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from torch import Tensor

from rmt.errors import ConfigError

# B batch · L tokens of one segment · T tokens of all segments


class Batch(NamedTuple):
    """Sequences as a model sees them."""

    tokens: Tensor  # (B, T) int64
    targets: Tensor  # (B, T) int64
    loss_mask: Tensor  # (B, T) bool
    answer: Tensor  # (B, T) bool, the positions the metric counts


class Segment(NamedTuple):
    """One segment of a batch of sequences."""

    tokens: Tensor  # (B, L) int64
    targets: Tensor  # (B, L) int64
    loss_mask: Tensor  # (B, L) bool
    reset: Tensor | None = None  # (B,) bool, the rows that start from the initial state; none = no row


def segment(batch: Batch, segments: int) -> list[Segment]:
    """The batch (B, T) cut into `segments` segments of one length; only the last may be shorter."""
    length = segment_length(batch.tokens.shape[1], segments)
    return cut(Segment(batch.tokens, batch.targets, batch.loss_mask), length)


def cut(whole: Segment, length: int) -> list[Segment]:
    """Segments of `length` tokens, the last as long as what is left."""
    columns = (column.split(length, dim=1) for column in whole[:3])
    return [Segment(*pieces) for pieces in zip(*columns, strict=True)]


def segment_length(total: int, segments: int) -> int:
    """The length ceil(total / segments), if cutting by it gives that many segments."""
    if divides_into(total, segments):
        return ceil(total / segments)
    possible = [count for count in range(1, total + 1) if divides_into(total, count)]
    below = [count for count in possible if count < segments][-1:]
    above = [count for count in possible if count > segments][:1]
    nearest = ", ".join(map(str, below + above))
    reason = f"choose 1 to {total}"
    if 1 <= segments <= total:
        length = ceil(total / segments)
        reason = f"length {length} gives {ceil(total / length)}"
    raise ConfigError(f"segments={segments} does not fit {total} tokens ({reason}); nearest: {nearest}")


def divides_into(total: int, segments: int) -> bool:
    """Whether `segments` segments of equal length, the last one ragged, make up `total` tokens."""
    return 1 <= segments <= total and ceil(total / ceil(total / segments)) == segments
