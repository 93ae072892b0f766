"""Which segments decided: how probable an answer is with a text, and with the text without a segment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from rmt.documents import tagging
from rmt.documents.task import Row
from rmt.documents.tuned import TunedModel, accepted
from rmt.errors import ConfigError
from rmt.hf.segments import cut


class SegmentWeight(NamedTuple):
    """A segment of a text, and by how much it makes the answer more probable (of a number: larger)."""

    text: str
    weight: float


@torch.no_grad()
def segment_weights(tuned: TunedModel, row: Row, at_once: int = 8) -> list[SegmentWeight]:
    """The weight of each segment: the probability of the answer less that without the segment.

    A text of one segment is decided by it alone, whose weight is the probability itself.
    """
    if not tuned.task.is_certain:
        raise ConfigError(f"segments=True has no effect with task={tuned.task.name!r} of this backbone")
    row = {
        name: tagging.cut(values, tuned.longest, tuned.model.settings.suffix) for name, values in row.items()
    }
    ids, ranges = row["input_ids"], list(segment_ranges(tuned, row))
    texts = [tuned.task.tokenizer.decode(ids[start:stop]) for start, stop in ranges]
    if len(ranges) == 1:
        return [SegmentWeight(texts[0], certainties(tuned, [row], at_once)[0])]
    rows = [row, *(without(row, start, stop) for start, stop in ranges)]
    whole, *rest = certainties(tuned, rows, at_once)
    return [SegmentWeight(text, whole - value) for text, value in zip(texts, rest, strict=True)]


def segment_ranges(tuned: TunedModel, row: Row) -> Iterator[tuple[int, int]]:
    """The tokens of each segment, as the model cuts a text."""
    settings = tuned.model.settings
    for segment in cut(torch.tensor([len(row["input_ids"])]), settings):
        start = settings.prefix + int(segment.start)
        yield start, start + int(segment.length)


def without(row: Row, start: int, stop: int) -> Row:
    """A row without some of its tokens."""
    return {name: [*values[:start], *values[stop:]] for name, values in row.items()}


def certainties(tuned: TunedModel, rows: list[Row], at_once: int) -> list[float]:
    """How probable the answer to the first row is in each of them."""
    device = next(tuned.model.parameters()).device
    tuned.model.eval()
    logits: list[Any] = []
    for start in range(0, len(rows), at_once):
        inputs = tuned.task.tokenizer.pad(rows[start : start + at_once], return_tensors="pt").to(device)
        logits.append(tuned.model(**accepted(tuned.model, dict(inputs))).logits.float())
    return tuned.task.certainty(torch.cat(logits)).tolist()
