"""What passed through memory while runs were trained, as a picture: a row per run, a line per border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rmt.analysis.curve_figure import COLOURS, SOFT
from rmt.analysis.figures import pyplot, save

# what a probe logs: how it is called here, and whether its scale is logarithmic
QUANTITIES = {
    "memory_gradient": ("gradient at memory", True),
    "slots_apart": ("slots apart", False),
    "inputs_apart": ("inputs apart", True),
}

Records = Sequence[Mapping[str, Any]]  # lines of metrics.jsonl


def draw_probes(runs: Mapping[str, Records], path: Path) -> None:
    """The probes of runs by their names, in the format the path's ending names."""
    plot = pyplot()
    figure, axes = plot.subplots(
        len(runs),
        len(QUANTITIES),
        figsize=(9.6, 2.6 * len(runs)),
        layout="constrained",
        squeeze=False,
        sharey="col",
    )
    for row, (name, records) in zip(axes, runs.items(), strict=True):
        probes = [record for record in records if "memory_gradient" in record]
        for axis, (quantity, (title, is_logarithmic)) in zip(row, QUANTITIES.items(), strict=True):
            draw_borders(axis, probes, quantity)
            axis.set_title(title, fontsize=9, loc="left")
            axis.set_yscale("log" if is_logarithmic else "linear")
            axis.tick_params(labelsize=7, colors=SOFT)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel(name, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("update", fontsize=8, color=SOFT)
    axes[0][-1].legend(fontsize=7, frameon=False)
    save(figure, path)


def draw_borders(axis: Any, probes: Records, quantity: str) -> None:
    """A quantity over updates, a line for each border."""
    steps = [probe["step"] for probe in probes]
    for border, values in enumerate(zip(*(probe[quantity] for probe in probes), strict=True)):
        axis.plot(steps, values, color=COLOURS[border % len(COLOURS)], lw=1.4, label=f"border {border + 1}")
