"""Draw the paper: how a segment is laid out, and each of the five models over three segments.

`python docs/drawings.py` writes docs/drawn/*.svg; the settings of a model are those of `rmt.presets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rmt.core import presets
from rmt.core.config import ModelConfig
from rmt.core.spans import Spans

FOLDER = Path(__file__).parent / "drawn"
SIZES = {"memory": 2, "cache": 3}  # of a drawn model
TOKENS, SEGMENTS, LAYERS = 4, 3, 3
CELL, STEP = 16, 19  # pixels of a cell, and from cell to cell
WIDTH, GAP, LEFT = 190, 52, 14  # pixels of a segment, between two, before the first
OUT, BOX, BOX_HEIGHT, IN = 40, 78, 44, 144  # pixels from the top

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333; text-anchor: middle }
.box { fill: #eef1f6; stroke: #8a94a6 }
.token { fill: #c9d3e3; stroke: #8a94a6 }
.memory { fill: #f5a623; stroke: #b36d00 }
.cache { fill: #9aa5b5; stroke: #6b7687 }
.carried { fill: none; stroke: #d98200; stroke-width: 2.2 }
.cached { fill: none; stroke: #6b7687; stroke-width: 2.2; stroke-dasharray: 5 4 }
.flow { fill: none; stroke: #8a94a6 }
.hidden { fill: none; stroke: #c4cad4; stroke-dasharray: 2 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .box { fill: #2b3038 }
  .token { fill: #4a5568 }
  .hidden { stroke: #555d69 }
}
"""
HEADS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    f'<path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
    for name, colour in {"carry": "#d98200", "push": "#6b7687", "up": "#8a94a6"}.items()
)


class Block(NamedTuple):
    """Cells of one kind that stand side by side."""

    kind: str
    left: float
    cells: int

    @property
    def right(self) -> float:
        return self.left + self.cells * STEP

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


def svg(width: int, height: int, parts: Iterator[str]) -> str:
    """A whole file."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join([f"<style>{STYLE}</style>", f"<defs>{HEADS}</defs>", *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{body}\n</svg>\n'


def cells(block: Block, top: int) -> Iterator[str]:
    for index in range(block.cells):
        yield cell(block.kind, block.left + index * STEP, top)


def cell(kind: str, left: float, top: float) -> str:
    return f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{CELL}" height="{CELL}" rx="3"/>'


def label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{text}</text>'


def arrow(kind: str, path: str, head: str) -> str:
    return f'<path class="{kind}" d="{path}" marker-end="url(#{head})"/>'


def draw_model(config: ModelConfig) -> str:
    """A model over three segments: what goes in, what comes out, what is handed on."""
    width = LEFT * 2 + SEGMENTS * WIDTH + (SEGMENTS - 1) * GAP
    return svg(width, 186, model_parts(config))


def model_parts(config: ModelConfig) -> Iterator[str]:
    memory = config.memory
    for index in range(SEGMENTS):
        left = LEFT + index * (WIDTH + GAP)
        blocks = segment_blocks(config, left)
        yield label(left + WIDTH / 2, 20, f"segment {index + 1}")
        yield f'<rect class="box" x="{left}" y="{BOX}" width="{WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
        yield label(left + WIDTH / 2, BOX + 27, "Transformer")
        for block in blocks:
            yield from cells(block, IN)
            yield from cells(block, OUT)
            yield arrow("flow", f"M{block.middle - 1.5:g} {IN - 2}V{BOX + BOX_HEIGHT + 3}", "up")
            yield arrow("flow", f"M{block.middle - 1.5:g} {BOX - 2}V{OUT + CELL + 3}", "up")
        if memory.size and not memory.recurrent:
            yield label(blocks[0].middle, IN + 33, "the same")
        if index + 1 < SEGMENTS:
            yield from handed_on(config, blocks, left + WIDTH)


def segment_blocks(config: ModelConfig, left: float) -> list[Block]:
    """The blocks of a segment in a row, in the middle of its place."""
    memory = config.memory
    sizes = [("memory", memory.size), ("token", TOKENS), ("memory", memory.size if memory.write else 0)]
    start = left + (WIDTH - sum(size for _, size in sizes) * STEP) / 2
    blocks = []
    for kind, size in sizes:
        if size:
            blocks.append(Block(kind, start, size))
            start = blocks[-1].right
    return blocks


def handed_on(config: ModelConfig, blocks: list[Block], right: float) -> Iterator[str]:
    """What passes a border: written memory, with its gradient; the cache of every layer, without."""
    if config.memory.size and config.memory.recurrent:
        start, end = blocks[-1].right, right + GAP + (WIDTH - (2 * config.memory.size + TOKENS) * STEP) / 2
        middle = right + GAP / 2
        path = f"M{start} {OUT + 8}C{middle + 14:g} {OUT + 8} {middle - 14:g} {IN + 8} {end - 3:g} {IN + 8}"
        yield arrow("carried", path, "carry")
    if config.cache.size:
        for layer in range(LAYERS):
            y = BOX + 10 + layer * 12
            yield arrow("cached", f"M{right + 2} {y}H{right + GAP - 3}", "push")


def draw_segment() -> str:
    """The axis of one segment and who sees whom on it."""
    return svg(440, 290, segment_parts(Spans(cache=3, read=2, tokens=4, write=2)))


def segment_parts(spans: Spans) -> Iterator[str]:
    kinds = {"cache": "cache", "read": "memory", "tokens": "token", "write": "memory"}
    left, top, seen = 150.0, 66, spans.mask(memory_sees_cache=False).tolist()
    columns = []
    for name, size in zip(kinds, spans, strict=True):
        columns.append(Block(kinds[name], left, size))
        yield from cells(columns[-1], top - 24)
        yield label(columns[-1].middle - 1.5, top - 34, name)
        left = columns[-1].right + 8
    places = [block.left + index * STEP for block in columns for index in range(block.cells)]
    kind_of = [block.kind for block in columns for _ in range(block.cells)]
    lines = [0.0]
    for size in spans[1:]:
        lines += [lines[-1] + STEP * (row + 1) for row in range(size - 1)] + [lines[-1] + STEP * size + 8]
    for row, y in zip(seen, lines, strict=False):
        for x, visible, kind in zip(places, row, kind_of, strict=True):
            yield cell(kind if visible else "hidden", x, top + y)
    starts = [0, spans.read, spans.read + spans.tokens]
    for name, start in zip(("read looks at", "a token looks at", "write looks at"), starts, strict=True):
        yield label(80, top + lines[start] + 14, name)
    yield label(left - 130, top + lines[-1] + 30, "filled: seen · dotted: hidden")


def drawings() -> dict[str, str]:
    """Every picture by its name."""
    models = {}
    for name, wanted in presets.PRESETS.items():
        sizes = {kind: SIZES[kind] for kind, has in zip(SIZES, wanted, strict=True) if has}
        models[name.replace("_", "-")] = draw_model(presets.preset(name, vocabulary=2, **sizes))
    return {"segment": draw_segment(), **models}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for picture, text in drawings().items():
        (FOLDER / f"{picture}.svg").write_text(text, encoding="utf-8")
