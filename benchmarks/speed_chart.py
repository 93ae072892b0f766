"""Draw docs/speed.png: milliseconds per update, the original code's beside ours.

`python benchmarks/speed_chart.py`; the numbers are those of the newest page on speed.
"""

from __future__ import annotations

from pathlib import Path

PICTURE = Path(__file__).parent.parent / "docs" / "speed.png"
OURS, WRITTEN, ORIGINAL = "#0b62ad", "#c8500a", "#9b9892"
# configuration: the original code, ours as written, ours; none where it was not measured. The original code's
# times are for one segment whose loss counts, so they stand for as many as ours has.
MEASURED: dict[str, tuple[float | None, float | None, float]] = {
    "copy-24, 9 segments": (None, 140, 3.64),
    "copy-24, 6 segments": (66, None, 2.35),
    "enwik8, 3 segments": (3 * 146, 135, 22.4),
    "WikiText-103, 4 segments": (4 * 404, 342, 63.1),
}


def draw(path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    kinds = (
        ("original code, for as many losses", ORIGINAL),
        ("ours, as written", WRITTEN),
        ("ours, fast", OURS),
    )
    for place, (label, colour) in enumerate(kinds):
        for row, times in enumerate(MEASURED.values()):
            value = times[place]
            if value is None:
                continue
            height = row + 0.27 * (place - 1)
            axes.barh(height, value, 0.25, color=colour, label=label if row == 2 else None)
            axes.text(value * 1.06, height, f"{value:g} ms", va="center", fontsize=8)
    axes.set(xscale="log", xlim=(1, 6000), xlabel="ms per update (relative positions, one H200, logarithmic)")
    axes.set_yticks(range(len(MEASURED)), MEASURED)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    draw(PICTURE)
