"""Pictures of memory at work (matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from rmt.analysis.capture import Head, SegmentAttention
from rmt.analysis.operations import best, findings
from rmt.errors import ConfigError, RMTError


class Panel(NamedTuple):
    """One attention map with its labels."""

    weights: Tensor  # (rows, columns)
    title: str
    rows: tuple[str, Sequence[str]]  # axis label, one label per row
    columns: tuple[str, Sequence[str]]


def write_and_read(
    written: SegmentAttention, read: SegmentAttention, words: tuple[Sequence[str], Sequence[str]], path: Path
) -> None:
    """The paper's Fig. 6 in small: one segment written into memory, a later one read from it."""
    writing, reading = written.block("write", "tokens"), read.block("tokens", "read")
    writer, reader = strongest(written, "write"), strongest(read, "read")
    slots = [str(slot + 1) for slot in range(writing.shape[2])]
    draw(
        [
            Panel(
                writing[writer],
                f"write: the source goes into memory\n{writer}",
                ("write block", slots),
                ("tokens of the first segment", words[0]),
            ),
            Panel(
                reading[reader],
                f"read: the answer comes out of memory\n{reader}",
                ("tokens of the second segment", words[1]),
                ("read block", slots),
            ),
        ],
        path,
    )


def strongest(segment: SegmentAttention, operation: str) -> Head:
    """The head that does an operation most clearly in a segment."""
    found = best(findings([segment]), operation)
    if found is None:
        raise ConfigError(f"operation={operation!r} cannot be drawn: this model has no spans for it")
    return found.head


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Panels side by side, saved in the format the path's ending names."""
    plot = pyplot()
    figure, axes = plot.subplots(1, len(panels), figsize=(4.6 * len(panels), 4.6), layout="constrained")
    for axis, panel in zip(axes, panels, strict=True):
        image = axis.imshow(panel.weights.float().cpu().numpy(), cmap="viridis", vmin=0, vmax=1)
        axis.set_title(panel.title, fontsize=10)
        axis.set_ylabel(panel.rows[0])
        axis.set_xlabel(panel.columns[0])
        axis.set_yticks(range(len(panel.rows[1])), panel.rows[1])
        axis.set_xticks(range(len(panel.columns[1])), panel.columns[1])
    figure.colorbar(image, ax=axes, shrink=0.7, label="attention")
    figure.savefig(path, dpi=120)
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
