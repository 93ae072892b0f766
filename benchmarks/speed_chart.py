"""Draw docs/speed.png: milliseconds per update, the original code's beside ours.

`python benchmarks/speed_chart.py` takes the newest numbers of the result files in this folder, those that
`rmt bench` and `benchmarks/original.py` write, of one card; it prints which file each of them is from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
PICTURE = FOLDER.parent / "docs" / "speed.png"
CARD = "NVIDIA H200"
CHARTED = {
    "copy-24-9x8": "copy-24, 9 segments",
    "copy-24-6x12": "copy-24, 6 segments",
    "enwik8-relative": "enwik8, 3 segments",
    "wt103-relative": "WikiText-103, 4 segments",
}
ORIGINALS = ("original tf32", "original bf16")  # the quicker of them is drawn
COLOURS = {
    "original code, for as many losses": "#9b9892",
    "ours, as written": "#c8500a",
    "ours, fast": "#0b62ad",
}


class Bar(NamedTuple):
    """A number of the chart."""

    configuration: str
    label: str
    milliseconds: float
    file: str  # where it is from


def result_files(folder: Path) -> list[Path]:
    """What `rmt bench` and `original.py` wrote, and collections of such records, the oldest first."""
    return sorted(
        file for kind in ("bench-*", "original", "engine") for file in folder.glob(f"*-{kind}.json")
    )


def newest_rows(files: Sequence[Path], card: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The newest row of each configuration and way that was measured on a card."""
    rows = {}
    for file in files:
        for record in records_in(file):
            for row in record["rows"] if record["environment"]["device"] == card else ():
                if "configuration" in row:  # a page of growth has none
                    rows[row["configuration"], row["way"]] = {**row, "file": file.name}
    return rows


def records_in(file: Path) -> list[dict[str, Any]]:
    """The record of a file, or all of a collection, which has the newest first; here it comes last."""
    numbers = json.loads(file.read_text())
    return numbers[::-1] if isinstance(numbers, list) else [numbers]


def bars(rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[Bar]:
    """What is drawn, as far as it was measured.

    The original counts one loss in an update of text, so it has as many updates as ours has losses.
    """
    original, written, fast = COLOURS
    for name in CHARTED:
        measured = [rows[name, way] for way in ORIGINALS if (name, way) in rows]
        if measured:
            quickest = min(measured, key=lambda row: row["step"]["median"])
            yield bar(original, quickest, quickest["updates"])
        for label, way in ((written, "eager"), (fast, "fast")):
            if (name, way) in rows:
                yield bar(label, rows[name, way])


def bar(label: str, row: Mapping[str, Any], updates: int = 1) -> Bar:
    return Bar(row["configuration"], label, 1000 * updates * row["step"]["median"], row["file"])


def draw(drawn: Sequence[Bar], card: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    names, labels = list(CHARTED), list(COLOURS)
    for each in drawn:
        height = names.index(each.configuration) + 0.27 * (labels.index(each.label) - 1)
        axes.barh(height, each.milliseconds, 0.25, color=COLOURS[each.label])
        text = f"{each.milliseconds:.3g}" if each.milliseconds < 1000 else f"{each.milliseconds:.0f}"
        axes.text(each.milliseconds * 1.06, height, f"{text} ms", va="center", fontsize=8)
    for label, colour in COLOURS.items():
        axes.barh(0, 0, color=colour, label=label)
    unit = f"ms per update (relative positions, one {card}, logarithmic)"
    axes.set(xscale="log", xlim=(1, 6000), xlabel=unit)
    axes.set_yticks(range(len(CHARTED)), CHARTED.values())
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="result files; none = all of this folder")
    parser.add_argument("--card", default=CARD, help="whose numbers")
    parser.add_argument("--out", type=Path, default=PICTURE)
    options = parser.parse_args(argv)
    drawn = list(bars(newest_rows(options.files or result_files(FOLDER), options.card)))
    if not drawn:
        raise SystemExit(f"no result file has a number of {options.card}; measure with rmt bench")
    for each in drawn:
        print(f"{each.configuration}  {each.label}  {each.milliseconds:.2f} ms  {each.file}")
    draw(drawn, options.card, options.out)
    print(f"drawn: {options.out}")


if __name__ == "__main__":
    main()
