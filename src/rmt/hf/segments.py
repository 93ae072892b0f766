"""Texts of any length as segments: which token of which row stands where.

Every row is packed: what exists stands to the left, padding to the right, so the positions that a pretrained
model counts by itself are right. All rows finish together: a row with fewer segments starts later.

Where tokens go is counted on the host, for all segments at once: the device is waited for once in a call, to
learn which tokens exist, and not at all where all of them do.
"""

# B batch · T places of the given rows · S places of a segment

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.errors import DataError
from rmt.gpu.graphs import sent
from rmt.hf.families import Layout
from rmt.hf.settings import MemorySettings


class PresentRows(NamedTuple):
    """The rows that have a segment which others have not, known on the host."""

    rows: Tensor  # (P,)
    whole: bool  # there is no padding in them


class TextSegment(NamedTuple):
    """One segment of a batch of texts."""

    inputs: dict[str, Tensor]  # (B, S, …) input_ids or inputs_embeds, and token_type_ids
    exists: Tensor  # (B, S) which places of a row are not padding
    alive: Tensor  # (B,) which rows have this segment at all
    whole: bool = False  # known on the host: every row has the segment, and there is no padding in it
    present: PresentRows | None = None  # None = every row, or to be computed as if

    def of_present(self, present: PresentRows) -> TextSegment:
        """The segment of the rows that have it."""
        inputs = {name: value.index_select(0, present.rows) for name, value in self.inputs.items()}
        exists, alive = (rows.index_select(0, present.rows) for rows in (self.exists, self.alive))
        return TextSegment(inputs, exists, alive, present.whole)


class SegmentPlan(NamedTuple):
    """Where the tokens of a batch go, and where they are found again."""

    segments: list[TextSegment]
    places: Tensor  # (B, T) place of each given token among the segments side by side; -1 = nowhere


class Cut(NamedTuple):
    """One segment of each row, as a range of its text."""

    start: Tensor  # (B,)
    length: Tensor  # (B,)
    alive: Tensor  # (B,)


class SegmentRows(NamedTuple):
    """Where one segment of each row is taken from, on the host."""

    source: Tensor  # (B, S) places in the given rows
    exists: Tensor  # (B, S)
    standing: Tensor  # (B, S) which of them stand for tokens of the row
    alive: Tensor  # (B,)


def plan(
    inputs: dict[str, Tensor],
    exists: Tensor | None,
    settings: MemorySettings,
    layout: Layout,
    padding: int = 0,
) -> SegmentPlan:
    """Cut the rows (B, T), of which all tokens or those in `exists` (B, T) exist, into segments."""
    first = next(iter(inputs.values()))
    present = torch.ones(first.shape[:2], dtype=torch.bool) if exists is None else exists.cpu()
    rows = cut_rows(present, settings, layout)
    keeps_padding = len(rows) == 1 and not layout.separator  # padding keeps its places, too
    places = torch.full(present.shape, -1)
    start = 0
    for row in rows:
        standing = torch.ones_like(row.standing) if keeps_padding else row.standing
        number = start + torch.arange(row.source.shape[1]).expand_as(row.source)
        places = put(places, row.source, number, standing & row.alive[:, None])
        start += row.source.shape[1]
    return SegmentPlan(taken(inputs, rows, None if keeps_padding else padding), sent(places, first.device))


def cut_rows(exists: Tensor, settings: MemorySettings, layout: Layout) -> list[SegmentRows]:
    """The segments of rows in which `exists` (B, T) says where tokens are."""
    order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)  # (B, T) existing places first
    tokens = exists.sum(1)
    rows = []
    for ranges in cut(tokens, settings):
        columns, present, standing = arrange(ranges, tokens, settings, layout.separator)
        source = order.gather(1, columns.clamp(max=order.shape[1] - 1))
        rows.append(SegmentRows(source, present, standing, ranges.alive))
    return rows


def taken(inputs: dict[str, Tensor], rows: list[SegmentRows], padding: int | None) -> list[TextSegment]:
    """The inputs of all segments, taken at once; `padding` is the token where nothing exists, if any."""
    device = next(iter(inputs.values())).device
    source, exists = (
        sent(torch.cat(parts, dim=1), device)
        for parts in ([row.source for row in rows], [row.exists for row in rows])
    )
    alive = sent(torch.stack([row.alive for row in rows]), device)
    values = {name: gather(value, source) for name, value in inputs.items()}
    if padding is not None:
        values = blank(values, exists, padding)
    sizes = [row.source.shape[1] for row in rows]
    parts = {name: value.split(sizes, dim=1) for name, value in values.items()}
    return [
        TextSegment(
            {name: segments[index] for name, segments in parts.items()},
            present,
            alive[index],
            whole=bool(row.exists.all() and row.alive.all()),
            present=present_rows(row, device),
        )
        for index, (row, present) in enumerate(zip(rows, exists.split(sizes, dim=1), strict=True))
    ]


def present_rows(row: SegmentRows, device: torch.device) -> PresentRows | None:
    """Which rows have a segment; nothing where all of them do, or none."""
    if row.alive.all() or not row.alive.any():
        return None
    return PresentRows(sent(row.alive.nonzero()[:, 0], device), bool(row.exists[row.alive].all()))


def cut(tokens: Tensor, settings: MemorySettings) -> list[Cut]:
    """The segments of rows that have so many `tokens` (B,); rows end together."""
    text = tokens - settings.prefix - settings.suffix
    if bool((text < 0).any()):
        row = int(text.argmin())
        raise DataError(
            f"row {row} has {int(tokens[row])} tokens, fewer than its {settings.prefix} + {settings.suffix} "
            "special tokens; tokenize with special tokens, or wrap with special_tokens=(0, 0)"
        )
    length = settings.segment_length
    text = shortened(text, settings)
    counts = ((text + length - 1) // length).clamp(min=1)
    if settings.prefix + settings.suffix == 0:
        counts = counts * (text > 0)  # a row of nothing has no segment
    most = max(int(counts.max()), 1)
    cuts = []
    for index in range(most):
        number = index - (most - counts)  # (B,) which of its own segments a row is at
        alive = number >= 0
        number = number.clamp(min=0)
        if settings.alignment == "even":
            start, stop = number * text // counts.clamp(min=1), (number + 1) * text // counts.clamp(min=1)
        elif settings.alignment == "right":
            short = text - (counts - 1).clamp(min=0) * length
            stop = short + number * length
            start = (stop - length).clamp(min=0)
        else:
            start = number * length
            stop = torch.minimum(start + length, text)
        cuts.append(Cut(start, (stop - start) * alive, alive))
    return cuts


def shortened(text: Tensor, settings: MemorySettings) -> Tensor:
    """Lengths within max_segments, if cutting off was asked for; else an error that counts what is over."""
    if settings.max_segments is None:
        return text
    limit = min(settings.max_segments * settings.segment_length, torch.iinfo(text.dtype).max)
    over = text - limit
    if settings.overlong == "error" and bool((over > 0).any()):
        row = int(over.argmax())
        raise DataError(
            f"row {row} has {int(text[row])} tokens of text, {int(over[row])} more than max_segments="
            f"{settings.max_segments} of {settings.segment_length} hold; raise max_segments, or drop the end "
            "with overlong='truncate'"
        )
    return text.clamp(max=limit)


def arrange(
    ranges: Cut, tokens: Tensor, settings: MemorySettings, separator: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Places (B, S) of a segment's tokens in the row, which of them exist, which stand for the row's tokens.

    A segment is [prefix ∘ separator ∘ text ∘ suffix]; the separator is the row's first suffix token, and
    stands for no token of the row.
    """
    prefix, suffix = settings.prefix, settings.suffix
    head = prefix + separator
    size = max(1, head + int(ranges.length.max()) + suffix)  # a place of padding where all rows are empty
    column = torch.arange(size, device=tokens.device).expand(len(tokens), -1)
    length, start, end = ranges.length[:, None], ranges.start[:, None], tokens[:, None] - suffix
    source = torch.where(
        column < prefix,
        column,
        torch.where(
            column < head,
            end,
            torch.where(column < head + length, prefix + start + column - head, end + column - head - length),
        ),
    )
    exists = column < head + length + suffix
    return source, exists | ~ranges.alive[:, None], exists & ((column < prefix) | (column >= head))


def spread(rows: Tensor, present: PresentRows, batch: int) -> Tensor:
    """Rows (P, …) among `batch` of them, the others zero."""
    return rows.new_zeros(batch, *rows.shape[1:]).index_copy(0, present.rows, rows)


def gather(value: Tensor, source: Tensor) -> Tensor:
    """Places `source` (B, S) of each row of `value` (B, T, …)."""
    return value.take_along_dim(source.view(*source.shape, *(1,) * (value.dim() - 2)), dim=1)


def scatter(hidden: Tensor, source: Tensor, states: Tensor, wanted: Tensor) -> Tensor:
    """`hidden` (B, T, D) with `states` (B, S, D) at the places `source` (B, S) where `wanted`."""
    beside = hidden.shape[1]
    wide = F.pad(hidden, (0, 0, 0, 1))
    column = source.masked_fill(~wanted, beside)[..., None].expand_as(states)
    return wide.scatter(1, column, states.to(hidden.dtype))[:, :beside]


def blank(inputs: dict[str, Tensor], exists: Tensor, padding: int) -> dict[str, Tensor]:
    """The same inputs with the padding token where nothing exists."""
    if "input_ids" not in inputs:
        return inputs
    return {**inputs, "input_ids": inputs["input_ids"].masked_fill(~exists, padding)}


def padding_id(config: Any) -> int:
    """The token that stands where nothing exists: a model's padding, or the first one where it has none."""
    return max(getattr(config, "pad_token_id", None) or 0, 0)


def lengthened(segment: TextSegment, length: int, padding: int) -> TextSegment:
    """The same segment with more padding, so long that it has `length` places."""
    more = length - segment.exists.shape[1]
    if more <= 0:
        return segment
    fill = {"input_ids": padding}
    inputs = {
        name: F.pad(value, (*(0, 0) * (value.dim() - 2), 0, more), value=fill.get(name, 0))
        for name, value in segment.inputs.items()
    }
    return TextSegment(inputs, F.pad(segment.exists, (0, more)), segment.alive)


def put(places: Tensor, source: Tensor, number: Tensor, wanted: Tensor) -> Tensor:
    """`places` with `number` at the columns `source` where `wanted`; later segments go over earlier ones."""
    beside = places.shape[1]  # what is not wanted is written beside the row, and dropped
    wide = F.pad(places, (0, 1))
    return wide.scatter(1, source.masked_fill(~wanted, beside), number)[:, :beside]
