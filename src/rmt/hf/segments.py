"""Texts of any length as segments: which token of which row stands where.

Every row is packed: what exists stands to the left, padding to the right, so the positions that a pretrained
model counts by itself are right. All rows finish together: a row with fewer segments starts later.
"""

# B batch · T places of the given rows · S places of a segment

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rmt.errors import DataError
from rmt.hf.families import Layout
from rmt.hf.settings import Settings


class TextSegment(NamedTuple):
    """One segment of a batch of texts."""

    inputs: dict[str, Tensor]  # (B, S, …) input_ids or inputs_embeds, and token_type_ids
    exists: Tensor  # (B, S) which places of a row are not padding
    alive: Tensor  # (B,) which rows have this segment at all


class SegmentPlan(NamedTuple):
    """Where the tokens of a batch go, and where they are found again."""

    segments: list[TextSegment]
    places: Tensor  # (B, T) place of each given token among the segments side by side; -1 = nowhere


class Cut(NamedTuple):
    """One segment of each row, as a range of its text."""

    start: Tensor  # (B,)
    length: Tensor  # (B,)
    alive: Tensor  # (B,)


def plan(
    inputs: dict[str, Tensor], exists: Tensor, settings: Settings, layout: Layout, padding: int = 0
) -> SegmentPlan:
    """Cut the rows (B, T) into segments with special tokens of their own."""
    order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)  # (B, T) existing places first
    tokens = exists.sum(1)
    cuts = cut(tokens, settings)
    segments, places = [], torch.full_like(order, -1)
    first = 0
    for ranges in cuts:
        columns, present, standing = arrange(ranges, tokens, settings, layout.separator)
        source = order.gather(1, columns.clamp(max=order.shape[1] - 1))
        taken = {name: gather(value, source) for name, value in inputs.items()}
        if len(cuts) == 1 and not layout.separator:
            standing = torch.ones_like(standing)  # padding keeps its places, too
        else:
            taken = blank(taken, present, padding)
        segments.append(TextSegment(taken, present, ranges.alive))
        number = first + torch.arange(columns.shape[1], device=columns.device).expand_as(columns)
        places = put(places, source, number, standing & ranges.alive[:, None])
        first += columns.shape[1]
    return SegmentPlan(segments, places)


def cut(tokens: Tensor, settings: Settings) -> list[Cut]:
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


def shortened(text: Tensor, settings: Settings) -> Tensor:
    """Lengths within max_segments, if cutting off was asked for; else an error that counts what is over."""
    if settings.max_segments is None:
        return text
    limit = settings.max_segments * settings.segment_length
    over = text - limit
    if settings.overlong == "error" and bool((over > 0).any()):
        row = int(over.argmax())
        raise DataError(
            f"row {row} has {int(text[row])} tokens of text, {int(over[row])} more than max_segments="
            f"{settings.max_segments} of {settings.segment_length} hold; raise max_segments, or drop the end "
            "with overlong='truncate'"
        )
    return text.clamp(max=limit)


def arrange(ranges: Cut, tokens: Tensor, settings: Settings, separator: int) -> tuple[Tensor, Tensor, Tensor]:
    """Places (B, S) of a segment's tokens in the row, which of them exist, which stand for the row's tokens.

    A segment is [prefix ∘ separator ∘ text ∘ suffix]; the separator is the row's first suffix token, and
    stands for no token of the row.
    """
    prefix, suffix = settings.prefix, settings.suffix
    head = prefix + separator
    size = head + int(ranges.length.max()) + suffix
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


def gather(value: Tensor, source: Tensor) -> Tensor:
    """Places `source` (B, S) of each row of `value` (B, T, …)."""
    return value[torch.arange(len(value), device=value.device)[:, None], source]


def blank(inputs: dict[str, Tensor], exists: Tensor, padding: int) -> dict[str, Tensor]:
    """The same inputs with the padding token where nothing exists."""
    if "input_ids" not in inputs:
        return inputs
    return {**inputs, "input_ids": inputs["input_ids"].masked_fill(~exists, padding)}


def put(places: Tensor, source: Tensor, number: Tensor, wanted: Tensor) -> Tensor:
    """`places` with `number` at the columns `source` where `wanted`; later segments go over earlier ones."""
    beside = places.shape[1]  # what is not wanted is written beside the row, and dropped
    wide = torch.nn.functional.pad(places, (0, 1))
    return wide.scatter(1, source.masked_fill(~wanted, beside), number)[:, :beside]
