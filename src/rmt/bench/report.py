"""What was measured, as a dated page with hardware and versions, the numbers behind it, and a picture."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.analysis.figures import pyplot, save
from rmt.bench.compare import RowRatios, comparisons
from rmt.bench.growth import Point, curves, fit
from rmt.bench.measure import Row
from rmt.errors import ConfigError
from rmt.store import write_whole
from rmt.train.config import RunConfig

GIB = 2**30  # bytes
# of the ways in pictures: hues that differ for the colour-blind, dark enough on white
COLOURS = {"eager": "#c8500a", "recorded": "#7a5195", "fast": "#0b62ad", "evaluation": "#0a7a57"}
OTHER = "#3d3b37"
COLUMNS = (
    "configuration",
    "path",
    "ms per step",
    "spread",
    "tokens/s",
    "peak GiB",
    "TFLOP/s",
    "product TFLOP/s",
    "utilisation",
    "kernels",
)
COMPARED_COLUMNS = (
    "configuration",
    "path",
    "beside",
    "time",
    "operations",
    "time per operation",
    "time per segment",
)
GROWTH_COLUMNS = ("path", "segments", "recomputed", "ms per step", "spread", "ms per segment", "peak GiB")


class Page(NamedTuple):
    """Where a measurement is written, and what it says of itself."""

    folder: Path
    name: str
    command: str
    environment: Mapping[str, Any]
    notes: Sequence[str]  # what the configurations are
    configurations: Mapping[str, Any]  # their settings, by name

    def path(self, ending: str) -> Path:
        """benchmarks/2026-11-15-bench-NAME.md and its neighbours."""
        return self.folder / f"{datetime.date.today().isoformat()}-bench-{self.name}.{ending}"


def write_rows(page: Page, rows: Sequence[Row]) -> Path:
    """The table so far; the same command on the same day replaces it."""
    compared = comparisons(rows)
    body = table(COLUMNS, map(cells, rows))
    if compared:
        body += f"\n\n{table(COMPARED_COLUMNS, map(compared_cells, compared))}"
    return write(page, body, list(map(record, rows)), [pair._asdict() for pair in compared])


def record(row: Row) -> dict[str, Any]:
    """A row as the result file has it; times are in seconds."""
    return {**row._asdict(), "step": row.step._asdict(), "tokens_per_second": row.speed}


def write_growth(page: Page, points: Sequence[Point], border: int) -> Path:
    """The points so far and the lines through them."""
    text = table(GROWTH_COLUMNS, map(growth_cells, points))
    lines = "\n".join(f"- {sentence}" for sentence in sentences_about(points, border))
    records = [{**point._asdict(), "step": point.step._asdict()} for point in points]
    return write(page, f"{text}\n\n{lines}", records)


def write(
    page: Page, body: str, records: list[dict[str, Any]], compared: Sequence[dict[str, Any]] = ()
) -> Path:
    """The page, and the result file beside it."""
    about = ", ".join(f"{key} {value}" for key, value in page.environment.items())
    notes = "\n".join(f"- {note}" for note in page.notes)
    today = datetime.date.today().isoformat()
    title = f"# Speed: {page.name}\n\n{today}, {about}.\n\n    {page.command}\n"
    path = page.path("md")
    try:
        page.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{title}\n{body}\n\n{notes}\n")
        numbers = {
            "date": today,
            "environment": dict(page.environment),
            "command": page.command,
            "configurations": dict(page.configurations),
            "rows": records,
            "comparisons": list(compared),
        }
        write_whole(page.path("json"), json.dumps(numbers, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(
            f"out={str(page.folder)!r} cannot be written ({error.strerror}); name another with --out"
        ) from None
    return path


def table(columns: Sequence[str], rows: Any) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(row: Row) -> list[str]:
    """A row of the table, in the order of `COLUMNS`."""
    return [
        row.configuration,
        row.way,
        f"{1000 * row.step.median:.2f}",
        f"{1000 * row.step.low:.2f} to {1000 * row.step.high:.2f}",
        f"{row.speed:,.0f}" if row.tokens else "–",
        gigabytes(row.peak),
        f"{row.rate / 1e12:.3g}" if row.flops else "–",
        f"{row.product / 1e12:.3g}" if row.product else "–",
        f"{100 * row.utilisation:.1f} %" if row.flops and row.product else "–",
        "–" if row.kernels is None else f"{row.kernels:,}",
    ]


def compared_cells(pair: RowRatios) -> list[str]:
    """A row of the table of comparisons, in the order of `COMPARED_COLUMNS`."""
    ratios = (pair.time, pair.operations, pair.time_per_operation, pair.time_per_segment)
    return [pair.configuration, pair.way, pair.beside, *(f"{ratio:.3f} ×" for ratio in ratios)]


def growth_cells(point: Point) -> list[str]:
    """A row of the table, in the order of `GROWTH_COLUMNS`."""
    return [
        point.way,
        str(point.segments),
        "yes" if point.recomputed else "no",
        f"{1000 * point.step.median:.2f}",
        f"{1000 * point.step.low:.2f} to {1000 * point.step.high:.2f}",
        f"{1000 * point.step.median / point.segments:.2f}",
        gigabytes(point.peak),
    ]


def gigabytes(count: int | None) -> str:
    return "–" if count is None else f"{count / GIB:.2f}"


def sentences_about(points: Sequence[Point], border: int) -> list[str]:
    """What each curve amounts to: a straight line in time, bytes per further segment."""
    sentences = [f"The state at one border, of all rows: {border / 2**20:.3f} MiB."]
    for (way, recomputed), curve in curves(points).items():
        label = f"{way}, recomputed" if recomputed else way
        if len(curve) < 2:
            continue
        first, last = curve[0], curve[-1]
        line = fit([point.segments for point in curve], [point.step.median for point in curve])
        text = (
            f"{label}: {1000 * line.start:.2f} ms + {1000 * line.slope:.2f} ms per segment; no point is "
            f"further than {100 * line.error:.0f} % from that line"
        )
        if first.peak is not None and last.peak is not None:
            each = (last.peak - first.peak) / (last.segments - first.segments)
            text += f"; each further segment adds {each / 2**20:.1f} MiB"
        sentences.append(text + ".")
    return sentences


def describe(name: str, config: RunConfig, segment_length: int) -> str:
    """A configuration in a line."""
    model, task = config.model, config.task
    size = f"{model.layers} layers × {model.width}, {model.heads} heads of {model.head_width}"
    size += f", {model.norm}-norm" + (f", dropout {model.dropout:g}" if model.dropout else "")
    return (
        f"{name}: {config.preset}, {size}, {model.positions} positions, memory {model.memory.size}, cache "
        f"{model.cache}, {model.vocabulary:,} tokens; {task.name} in segments of {segment_length}, "
        f"batch {config.train.batch}, BPTT {config.bptt.schedule} depth {config.bptt.depth}; "
        f"{config.optimizer.name}, {config.precision}"
        + (f", {config.threads} CPU thread{'s' * (config.threads > 1)}" if config.threads else "")
    )


def draw_rows(rows: Sequence[Row], path: Path) -> None:
    """Tokens per second, a bar for each row."""
    figure, axes = pyplot().subplots(figsize=(8, 0.6 + 0.34 * len(rows)), layout="constrained")
    heights = range(len(rows))
    colours = [COLOURS.get(row.way, OTHER) for row in rows]
    axes.barh(heights, [row.speed for row in rows], color=colours, height=0.7)
    axes.set_yticks(heights, [f"{row.configuration}, {row.way}" for row in rows])
    for height, row in zip(heights, rows, strict=True):
        axes.text(row.speed, height, f" {row.speed:,.0f}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("tokens per second")
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def draw_growth(points: Sequence[Point], path: Path) -> None:
    """Time and peak memory of a step over its segments."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for (way, recomputed), curve in curves(points).items():
        style = {"color": COLOURS[way], "linestyle": "--" if recomputed else "-", "marker": "o"}
        label = f"{way}, segments recomputed" if recomputed else way
        segments = [point.segments for point in curve]
        left.plot(segments, [1000 * point.step.median for point in curve], label=label, **style)
        right.plot(segments, [(point.peak or 0) / GIB for point in curve], label=label, **style)
    left.set(xlabel="segments of a step", ylabel="ms per step", ylim=(0, None))
    right.set(xlabel="segments of a step", ylabel="peak memory, GiB", ylim=(0, None))
    left.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
