"""What a run's attention does with memory or cache, small enough for the record of its cell."""

# N layers · H heads · Q queries · K keys

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.analysis.capture import HeadIndex, SegmentAttention, capture_mean
from rmt.analysis.operations import OPERATIONS, Finding, best, findings
from rmt.config import from_dict
from rmt.core.spans import Spans
from rmt.experiments.positions import RECURRENT
from rmt.tasks.registry import task_class
from rmt.train.checkpoint import load
from rmt.train.config import RunConfig, build_task
from rmt.train.device import device_of
from rmt.train.folder import is_number

SAMPLES = 64  # test sequences that the attention is the mean of
MOST_KEYS = 160  # of a segment that is kept
LEVELS = 255  # steps of a weight from 0 to 1, a byte each
SCORES = ("mass", "straight", "reversed", "compression")


class AttentionMap(NamedTuple):
    """The head that does an operation most clearly, in one segment."""

    operation: str
    segment: int
    head: HeadIndex
    mass: float  # share of its rows' attention that goes there
    straight: float
    reversed: float
    compression: float
    spans: Spans
    levels: bytes  # Q × K

    @property
    def finding(self) -> Finding:
        scores = (self.mass, self.straight, self.reversed, self.compression)
        return Finding(self.operation, self.segment, self.head, *scores)


def attention_maps(run: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The maps of a run for its record: none where nothing is carried between segments, or these are long."""
    config = from_dict(RunConfig, settings)
    if not is_mapped(config):
        return []
    task = build_task(config.task)
    model = load(run).to(device_of(config.device))
    tokens = task.split("test", min(SAMPLES, task.sizes["test"])).tokens
    segments = capture_mean(
        model,
        tokens.to(next(model.parameters()).device),
        task.tokens_per_segment(config.task.segments),
    )
    if max(sum(segment.spans) for segment in segments) > MOST_KEYS:
        return []
    return [recorded(finding, segments[finding.segment]) for finding in clearest_heads(segments)]


def is_mapped(config: RunConfig) -> bool:
    """Whether a run generates answers in several segments, out of what it carries."""
    return (
        config.preset in RECURRENT
        and config.task.segments > 1
        and config.bptt.depth == "full"
        and task_class(config.task.name).generates
    )


def clearest_heads(segments: Sequence[SegmentAttention]) -> list[Finding]:
    """The best head of each operation; what is read or rewritten there is from an earlier segment."""
    later = [finding for finding in findings(segments) if finding.segment or finding.operation == "write"]
    strongest = (best(later, operation) for operation in OPERATIONS)
    return [finding for finding in strongest if finding is not None]


def recorded(finding: Finding, segment: SegmentAttention) -> dict[str, Any]:
    """A map as JSON."""
    levels = (segment.weights[finding.head].float() * LEVELS).round().clamp(0, LEVELS).byte().cpu().numpy()
    return {
        "operation": finding.operation,
        "segment": finding.segment,
        "head": list(finding.head),
        **{name: round(getattr(finding, name), 4) for name in SCORES},
        "spans": list(segment.spans),
        "levels": base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode(),
    }


def map_of(record: Any) -> AttentionMap | None:
    """A map of what stands in a record; nothing if it is none."""
    if not isinstance(record, Mapping) or record.get("operation") not in OPERATIONS:
        return None
    counts = {name: counts_of(record.get(name)) for name in ("spans", "head")}
    scores: list[Any] = [record.get(name) for name in SCORES]
    segment = counts_of([record.get("segment")])
    if len(counts["spans"]) != len(Spans._fields) or len(counts["head"]) != 2 or not segment:
        return None
    if not all(map(is_number, scores)) or sum(counts["spans"]) > MOST_KEYS:
        return None
    spans = Spans(*counts["spans"])
    levels = unpacked(record.get("levels"), (sum(spans) - spans.cache) * sum(spans))
    mass, straight, reversed_share, per_row = map(float, scores)
    head = HeadIndex(*counts["head"])
    shown = (record["operation"], segment[0], head, mass, straight, reversed_share, per_row)
    return AttentionMap(*shown, spans, levels) if levels else None


def counts_of(values: Any) -> list[int]:
    """A list of numbers from 0 on; nothing if it is something else."""
    is_list = isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
    return values if is_list else []


def unpacked(text: Any, size: int) -> bytes:
    """So many bytes of what `recorded` packed; nothing if it is something else."""
    if not isinstance(text, str) or not size:
        return b""
    unpacker = zlib.decompressobj()
    try:
        levels = unpacker.decompress(base64.b64decode(text, validate=True), size)
    except (ValueError, zlib.error):  # binascii's is a ValueError
        return b""
    return levels if len(levels) == size and not unpacker.unconsumed_tail else b""
