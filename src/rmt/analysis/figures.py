"""Pictures of memory at work, as PNG or SVG (matplotlib): the paper's Fig. 6 and Fig. 9, and a timeline."""

# N layers · H heads · Q queries · K keys · S segments · P positions of the source

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from rmt.analysis.capture import HeadIndex, SegmentAttention
from rmt.analysis.operations import best, findings
from rmt.analysis.probes import Decoded
from rmt.core.spans import Spans
from rmt.errors import ConfigError, RMTError

SPAN_COLOURS = {"cache": "#0a7a57", "read": "#0b62ad", "tokens": "#3d3b37", "write": "#c8500a"}
MOST_LABELS = 40  # columns from which labels would run into each other


class Picture(NamedTuple):
    """One head in one segment, to be drawn whole."""

    segment: SegmentAttention
    head: HeadIndex
    title: str
    words: Sequence[str] = ()  # labels of the tokens; none = their numbers


class Panel(NamedTuple):
    """One block of an attention map with its labels."""

    weights: Tensor  # (rows, columns)
    title: str
    rows: tuple[str, Sequence[str]]  # axis label, one label per row
    columns: tuple[str, Sequence[str]]


def memory_operations(
    copying: Sequence[SegmentAttention],
    reversing: Sequence[SegmentAttention],
    rewriting: Sequence[SegmentAttention],
    cached: Sequence[SegmentAttention],
) -> list[Picture]:
    """The paper's Fig. 6: (a) write and (b) read, copy above reverse, (c) rewrite, (d) reading the cache."""
    return [
        clearest(copying, "write", "(a) copy: write"),
        clearest(copying, "read", "(b) copy: read", first=1),
        clearest(rewriting, "rewrite", "(c) many segments: rewrite", first=1),
        clearest(reversing, "write", "(a) reverse: write"),
        clearest(reversing, "read", "(b) reverse: read", first=1),
        clearest(cached, "cache", "(d) Transformer-XL: cache", first=1),
    ]


def compression(compressed: Sequence[SegmentAttention], mixed: Sequence[SegmentAttention]) -> list[Picture]:
    """The paper's Fig. 9: (a) RMT puts a segment into few slots, (b) Transformer-XL mixes token states."""
    return [
        clearest(compressed, "write", "(a) RMT: write"),
        clearest(compressed, "read", "(a) RMT: read", first=1),
        clearest(mixed, "mix", "(b) Transformer-XL: mix", first=1),
        clearest(mixed, "cache", "(b) Transformer-XL: cache", first=1),
    ]


def clearest(segments: Sequence[SegmentAttention], operation: str, title: str, first: int = 0) -> Picture:
    """The head that does an operation most clearly, in any segment from number `first` on."""
    finding = best(findings(segments[first:]), operation)
    if finding is None:
        raise ConfigError(f"operation={operation!r} cannot be drawn: this model has no spans for it")
    number = first + finding.segment
    return Picture(segments[number], finding.head, f"{title}\nsegment {number + 1}, {finding.head}")


def draw_maps(pictures: Sequence[Picture], path: Path, columns: int = 3) -> None:
    """Whole attention maps in a grid, with the borders and names of their spans."""
    plot = pyplot()
    columns = min(columns, len(pictures))
    rows = ceil(len(pictures) / columns)
    size = (4.3 * columns, 4.5 * rows)
    figure, axes = plot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(pictures) :]:
        axis.set_axis_off()
    for axis, picture in zip(axes.flat, pictures, strict=False):
        draw_map(axis, picture)
    save(figure, path)


def draw_map(axis: Any, picture: Picture) -> None:
    """One head: rows look at columns."""
    spans = picture.segment.spans
    image = picture.segment.weights[picture.head].float().cpu().numpy()
    axis.imshow(image, cmap="Blues", vmin=0, vmax=max(float(image.max()), 0.5), aspect="auto")
    axis.set_title(picture.title, fontsize=10, pad=30)
    axis.set_box_aspect(image.shape[0] / image.shape[1])
    labels = labels_of(spans, picture.words)
    axis.xaxis.tick_top()
    name_axis(axis.xaxis, labels)
    name_axis(axis.yaxis, labels[spans.cache :])
    borders = list(accumulate(spans, initial=0))
    for (name, colour), start, stop in zip(SPAN_COLOURS.items(), borders, borders[1:], strict=False):
        if start == stop:
            continue
        axis.axvline(start - 0.5, color="#8a867e", linewidth=0.6)
        middle = (start + stop - 1) / 2
        axis.annotate(
            name,
            (middle, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 15),
            textcoords="offset points",
            ha="center",
            color=colour,
            fontsize=8,
            fontweight="bold",
        )
        if start >= spans.cache:
            axis.axhline(start - spans.cache - 0.5, color="#8a867e", linewidth=0.6)


def labels_of(spans: Spans, words: Sequence[str]) -> list[str]:
    """A label for each key: numbers of slots, tokens as they are spelled."""
    tokens = list(words) or [str(position + 1) for position in range(spans.tokens)]
    slots = [str(slot + 1) for slot in range(max(spans.read, spans.write))]
    return ["·"] * spans.cache + slots[: spans.read] + tokens + slots[: spans.write]


def name_axis(axis: Any, labels: Sequence[str]) -> None:
    """Labels along an axis if there is room; a dollar sign in them is a dollar sign."""
    if len(labels) > MOST_LABELS:
        axis.set_ticks([])
        return
    axis.set_ticks(range(len(labels)), labels, parse_math=False)
    axis.set_tick_params(labelsize=7, length=0)


def write_and_read(
    written: SegmentAttention, read: SegmentAttention, words: tuple[Sequence[str], Sequence[str]], path: Path
) -> None:
    """The paper's Fig. 6 in small: one segment written into memory, a later one read from it."""
    writer, reader = clearest([written], "write", "").head, clearest([read], "read", "").head
    slots = [str(slot + 1) for slot in range(written.spans.write)]
    draw(
        [
            Panel(
                written.block("write", "tokens")[writer],
                f"write: the source goes into memory\n{writer}",
                ("write block", slots),
                ("tokens of the first segment", words[0]),
            ),
            Panel(
                read.block("tokens", "read")[reader],
                f"read: the answer comes out of memory\n{reader}",
                ("tokens of the last segment", words[1]),
                ("read block", slots),
            ),
        ],
        path,
    )


def timeline(decoded: Decoded, reached: Tensor, path: Path) -> None:
    """Memory over segments: what can be read off it after each, and how far back gradients still matter."""
    plot = pyplot()
    figure, (left, right) = plot.subplots(1, 2, figsize=(9.2, 3.6), layout="constrained", width_ratios=(3, 2))
    image = left.imshow(decoded.whole.numpy(), cmap="Blues", vmin=decoded.chance, vmax=1, aspect="auto")
    left.set_title("source symbols that can be decoded from memory", fontsize=10)
    left.set_xlabel("place in the source")
    left.set_ylabel("after segment")
    for axis, size in ((left.xaxis, decoded.whole.shape[1]), (left.yaxis, decoded.whole.shape[0])):
        axis.set_ticks(range(size), [str(number + 1) for number in range(size)])
    figure.colorbar(image, ax=left, label="accuracy (from chance to 1)")
    right.bar(range(len(reached)), reached.numpy(), color=SPAN_COLOURS["write"])
    right.set_title("gradient through memory", fontsize=10)
    right.set_xlabel("segments back")
    right.set_ylabel("share of the nearest")
    right.set_xticks(range(len(reached)))
    save(figure, path)


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Panels side by side, saved in the format the path's ending names."""
    plot = pyplot()
    figure, axes = plot.subplots(
        1, len(panels), figsize=(4.6 * len(panels), 4.6), layout="constrained", squeeze=False
    )
    for axis, panel in zip(axes.flat, panels, strict=True):
        image = axis.imshow(panel.weights.float().cpu().numpy(), cmap="viridis", vmin=0, vmax=1)
        axis.set_title(panel.title, fontsize=10)
        axis.set_ylabel(panel.rows[0])
        axis.set_xlabel(panel.columns[0])
        axis.set_yticks(range(len(panel.rows[1])), panel.rows[1], parse_math=False)
        axis.set_xticks(range(len(panel.columns[1])), panel.columns[1], parse_math=False)
    figure.colorbar(image, ax=axes, shrink=0.7, label="attention")
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG or SVG, the same bytes each time."""
    plot = pyplot()
    kind = path.suffix.lower()
    if kind not in (".png", ".svg"):
        plot.close(figure)
        raise ConfigError(f"figure={str(path)!r} must end in .png or .svg")
    with plot.rc_context({"svg.hashsalt": "rmt", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=120, metadata={"Date": None} if kind == ".svg" else None)
    plot.close(figure)


def pyplot() -> Any:
    """matplotlib without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise RMTError(
            "pictures need matplotlib; install it with: pip install 'recurrent-memory[viz]'"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
