"""The paper's Fig. 6 and 9 from the attention of our runs: which cells they show, and how a map is drawn."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import accumulate
from typing import NamedTuple

from rmt.analysis.capture import columns, rows
from rmt.analysis.operations import OPERATIONS
from rmt.core.spans import Spans
from rmt.experiments.attention_maps import LEVELS, AttentionMap
from rmt.experiments.comparable import usual
from rmt.experiments.comparison import ComparedRow, Exhibits

WHITE, INK = (255, 255, 255), (8, 48, 107)  # of no attention and of all
SIZE = 300.0  # pixels of the longer side
LEFT, TOP = 16.0, 16.0  # for the names of spans
ABOUT = (
    "Rows look at columns; means over 64 test sequences of seed 0. Of each operation the head that does it "
    "most clearly; its share is the part of its rows' attention that goes there."
)


class MapPanel(NamedTuple):
    """A map of a cell, below a title."""

    title: str
    row: ComparedRow
    map: AttentionMap


def memory_operations(exhibits: Exhibits) -> Iterator[MapPanel]:
    """Fig. 6: (a) write and (b) read in the fewest segments, (c) rewrite in the most, (d) a cache is read."""
    members = mapped(exhibits.get("figure-3", ()))
    copies = of(members, "copy", "rmt")
    yield from panels(copies[:1], {"write": "(a) copy: write", "read": "(b) copy: read"})
    reversals = of(members, "reverse", "rmt")
    yield from panels(reversals[:1], {"write": "(a) reverse: write", "read": "(b) reverse: read"})
    yield from panels(copies[1:][-1:], {"rewrite": "(c) many segments: rewrite"})
    yield from panels(of(members, "copy", "transformer_xl")[:1], {"cache": "(d) Transformer-XL: cache"})


def compression(exhibits: Exhibits) -> Iterator[MapPanel]:
    """Fig. 9: reverse with memory of half a segment: (a) RMT compresses, (b) Transformer-XL mixes."""
    both = mapped(row for name in ("figure-3", "figure-8") for row in exhibits.get(name, ()))
    members = [row for row in both if row.segments > 2 and row.size < row.length]
    yield from panels(of(members, "reverse", "rmt")[:1], {"write": "(a) RMT: write", "read": "(a) RMT: read"})
    cached = {"mix": "(b) Transformer-XL: mix", "cache": "(b) Transformer-XL: cache"}
    yield from panels(of(members, "reverse", "transformer_xl")[:1], cached)


FIGURES = {"figure-6": memory_operations, "figure-9": compression}


def mapped(members: Iterable[ComparedRow]) -> list[ComparedRow]:
    """The rows in segments that have maps, the largest size first and of these the fewest segments."""
    having = {row.name: row for row in usual(members) if row.segments > 1 and row.maps}.values()
    return sorted(having, key=lambda row: (-size_of(row), row.segments))


def size_of(row: ComparedRow) -> int:
    config = row.record["config"]["model"]
    return int(config["layers"] * config["width"])


def of(members: Iterable[ComparedRow], task: str, model: str) -> list[ComparedRow]:
    """The rows of a task and model, in the size that comes first."""
    chosen = [row for row in members if row.task.startswith(f"{task}-") and row.model == model]
    return [row for row in chosen if size_of(row) == size_of(chosen[0])]


def panels(members: Iterable[ComparedRow], titles: dict[str, str]) -> Iterator[MapPanel]:
    for row in members:
        for operation, title in titles.items():
            if operation in row.maps:
                yield MapPanel(title, row, row.maps[operation])


def drawn(panel: MapPanel) -> str:
    """A panel as a figure of HTML."""
    finding, spans = panel.map.finding, panel.map.spans
    keys = sum(spans)
    cell = SIZE / keys
    height = cell * (keys - spans.cache)
    picture = base64.b64encode(png(panel.map.levels, keys)).decode()
    where = f"{panel.row.name}, segment {finding.segment + 1}, {finding.head}"
    caption = f"{where}: share {finding.mass:.2f}, {finding.order}"
    return (
        f"<figure><figcaption>{escape(panel.title)}</figcaption>"
        f'<svg viewBox="0 0 {SIZE + LEFT:.0f} {height + TOP:.0f}" role="img" aria-label="{escape(caption)}">'
        f'<image href="data:image/png;base64,{picture}" x="{LEFT}" y="{TOP}" width="{SIZE}" '
        f'height="{height:.1f}" preserveAspectRatio="none" style="image-rendering: pixelated"/>'
        f"{borders(spans, cell, height)}{outline(panel.map, cell)}</svg>"
        f'<p class="budget">{escape(caption)}</p></figure>'
    )


def borders(spans: Spans, cell: float, height: float) -> str:
    """Where spans begin, with their names; queries have no cache."""
    parts = []
    starts = list(accumulate(spans, initial=0))
    for name, start, stop in zip(Spans._fields, starts, starts[1:], strict=False):
        if start == stop:
            continue
        x, y = LEFT + start * cell, TOP + (start - spans.cache) * cell
        middle = (stop - start) * cell / 2
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + height:.1f}"/>')
        parts.append(f'<text x="{x + middle:.1f}" y="{TOP - 5}" text-anchor="middle">{name}</text>')
        if start >= spans.cache:
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + SIZE}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(
                f'<text transform="translate({LEFT - 5},{y + middle:.1f}) rotate(-90)" '
                f'text-anchor="middle">{name}</text>'
            )
    return "".join(parts)


def outline(shown: AttentionMap, cell: float) -> str:
    """A frame around where the operation is."""
    query, key = OPERATIONS[shown.operation]
    y, height = (TOP + cell * rows(shown.spans, query).start, cell * getattr(shown.spans, query))
    x, width = (LEFT + cell * columns(shown.spans, key).start, cell * getattr(shown.spans, key))
    return f'<rect class="outline" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def png(levels: bytes, width: int) -> bytes:
    """A picture of a pixel per weight, from white to ink."""
    lines = [levels[start : start + width] for start in range(0, len(levels), width)]
    palette = bytes(
        round(low + (high - low) * level / LEVELS)
        for level in range(LEVELS + 1)
        for low, high in zip(WHITE, INK, strict=True)
    )
    header = struct.pack(">IIBBBBB", width, len(lines), 8, 3, 0, 0, 0)  # 8 bits, of a palette
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines), 9)  # 0: no filter
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in chunks)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def map_lines(drawn_panels: Sequence[MapPanel]) -> list[tuple[str, ...]]:
    """Panels as rows of a table: what each shows, and how clearly."""
    return [
        (
            panel.title,
            panel.row.name,
            str(finding.segment + 1),
            str(finding.head),
            f"{finding.mass:.2f}",
            finding.order,
            f"{finding.compression:.2f}",
        )
        for panel in drawn_panels
        for finding in [panel.map.finding]
    ]


HEADINGS = ("operation", "cell", "segment", "head", "share of attention", "order", "columns per row")
