"""What a head does with memory, by name: scores of its attention between spans (the paper's Fig. 6)."""

# N layers · H heads · R rows · C columns

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rmt.analysis.capture import HeadIndex, SegmentAttention

# name: (who looks, at whom); information flows the other way
OPERATIONS = {
    "write": ("write", "tokens"),
    "read": ("tokens", "read"),
    "rewrite": ("write", "read"),
    "cache": ("tokens", "cache"),
    "mix": ("tokens", "tokens"),
}
DIAGONAL = 0.5  # share of the attention on one diagonal from which an operation has an order
TINY = 1e-12  # what counts as no attention at all


class Scores(NamedTuple):
    """One operation in one segment, every score for every head (N, H)."""

    mass: Tensor  # share of the rows' attention that goes there, 0 to 1
    straight: Tensor  # of that, the share on the best diagonal
    reversed: Tensor  # of that, the share on the best anti-diagonal
    compression: Tensor  # tokens (or slots) looked at per row: above 1, several come into one


def scores(segment: SegmentAttention, operation: str) -> Scores:
    """How much every head does an operation in a segment, and in which order."""
    block = segment.block(*OPERATIONS[operation])
    share = normalised(block)
    return Scores(
        block.sum(-1).mean(-1) if block.numel() else block.new_zeros(block.shape[:2]),
        diagonal(share),
        diagonal(share.flip(-1)),
        compression(block),
    )


def operations(segment: SegmentAttention) -> dict[str, Scores]:
    """All operations for which a segment has both spans."""
    return {
        name: scores(segment, name)
        for name, (query, key) in OPERATIONS.items()
        if segment.block(query, key).numel()
    }


def normalised(block: Tensor) -> Tensor:
    """Rows that sum to one within the block (…, R, C); a row that never looks there stays zero."""
    total = block.sum(-1, keepdim=True)
    return torch.where(total > TINY, block / total.clamp_min(TINY), 0.0)


def diagonal(share: Tensor) -> Tensor:
    """The mean share of a row (…, R, C) that lies on one line through the block, for the best such line.

    A line may be shifted; rows that it misses count as zero. Where a block is not square the line is as
    thick as its longer side asks: with 3 columns per row, each row has 3 cells of it.
    """
    if share.shape[-1] == 0 or share.shape[-2] == 0:
        return share.new_zeros(share.shape[:-2])
    cells = share.flatten(-2)
    sums = [cells[..., line.to(cells.device)].sum(-1) for line in lines(*share.shape[-2:])]
    return torch.stack(sums).amax(0) / share.shape[-2]


def lines(rows: int, columns: int) -> Iterator[Tensor]:
    """The cells, counted row by row, of each straight line from the upper left to the lower right."""
    fine = max(rows, columns)
    position = torch.arange(fine)
    row, column = position * rows // fine, position * columns // fine
    for offset in range(1 - fine, fine):
        inside = position[max(0, -offset) : fine - max(0, offset)]
        yield (row[inside] * columns + column[inside + offset]).unique()


def compression(block: Tensor) -> Tensor:
    """How many columns the rows look at together, per row: exp(entropy of the columns' attention) / R."""
    total = block.sum((-1, -2))
    column = block.sum(-2) / total.clamp_min(TINY)[..., None]
    effective = torch.exp(-torch.xlogy(column, column).sum(-1))
    return torch.where(total > TINY, effective, 0.0) / max(block.shape[-2], 1)


class Finding(NamedTuple):
    """One head doing one operation in one segment."""

    operation: str
    segment: int
    head: HeadIndex
    mass: float
    straight: float
    reversed: float
    compression: float

    @property
    def strength(self) -> float:
        """What heads are ranked by: attention that goes there along a diagonal."""
        return self.mass * max(self.straight, self.reversed)

    @property
    def order(self) -> str:
        """Straight, reversed, or mixed where neither diagonal holds most of the attention."""
        if max(self.straight, self.reversed) < DIAGONAL:
            return "mixed"
        return "straight" if self.straight >= self.reversed else "reversed"


def findings(segments: Sequence[SegmentAttention]) -> list[Finding]:
    """Every head's every operation in every segment, strongest first."""
    unsorted = [
        Finding(name, number, head, *(float(score[head]) for score in all_scores))
        for number, segment in enumerate(segments)
        for name, all_scores in operations(segment).items()
        for head in heads(segment)
    ]
    return sorted(unsorted, key=lambda finding: -finding.strength)


def heads(segment: SegmentAttention) -> list[HeadIndex]:
    layers, count = segment.weights.shape[:2]
    return [HeadIndex(layer, head) for layer in range(layers) for head in range(count)]


def best(all_findings: Iterable[Finding], operation: str, segment: int | None = None) -> Finding | None:
    """The strongest head of an operation, in one segment or any; none where nobody can do it."""
    fitting = (
        finding
        for finding in all_findings
        if finding.operation == operation and segment in (None, finding.segment)
    )
    return max(fitting, key=lambda finding: finding.strength, default=None)


class Composition(NamedTuple):
    """Which source token each later token gets to see through memory."""

    weights: Tensor  # (L, L): rows look at memory in the later segment, columns were written in the earlier
    reader: HeadIndex
    writer: HeadIndex

    @property
    def straight(self) -> float:
        return float(diagonal(self.weights))

    @property
    def reversed(self) -> float:
        return float(diagonal(self.weights.flip(-1)))


def composition(
    written: SegmentAttention, read: SegmentAttention, between: Tensor | None = None
) -> Composition:
    """read ∘ write of the two heads that make the clearest line together.

    Slots may come in any order: only the composition says whether a sequence is handed on straight or
    reversed. `between` (M, M) is what the segments in the middle did to the slots; none = nothing.
    """
    writing = normalised(written.block("write", "tokens"))  # (N, H, M, L)
    reading = normalised(read.block("tokens", "read"))  # (N, H, L, M)
    if between is not None:
        writing = normalised(between) @ writing
    layers, count = writing.shape[:2]
    both = torch.einsum("rlm,wms->rwls", reading.flatten(0, 1), writing.flatten(0, 1))
    clear = torch.maximum(diagonal(both), diagonal(both.flip(-1)))  # (readers, writers)
    reader, writer = divmod(int(clear.argmax()), layers * count)
    heads_of_line = (HeadIndex(*divmod(number, count)) for number in (reader, writer))
    return Composition(both[reader, writer], *heads_of_line)
