"""What `rmt bench` prints while it measures, and the page it writes row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rmt.errors import RMTError


def measure_rows(page: Any, measured: Iterator[Any]) -> int:
    """Row after row; the page is written anew after each."""
    from rmt.bench.measure import Row
    from rmt.bench.report import draw_rows, write_rows

    rows: list[Row] = []
    for row in measured:
        rows.append(row)
        print(line_about(row), flush=True)
        write_rows(page, rows)
    print_comparisons(rows)
    with_tokens = [row for row in rows if row.tokens]
    return finished(page, (lambda path: draw_rows(with_tokens, path)) if with_tokens else None)


def line_about(row: Any) -> str:
    """A row in a line, without what it does not have."""
    from rmt.bench.report import cells

    name, way, median, _, speed, peak, *_, used, kernels = cells(row)
    numbers = {
        f"{median} ms per step": True,
        f"{speed} tokens/s": row.tokens,
        f"{peak} GiB": row.peak is not None,
        f"{used} of a product's speed": row.utilisation,
        f"{kernels} kernels": row.kernels is not None,
    }
    return "  ".join([name, way, *(text for text, is_known in numbers.items() if is_known)])


def print_comparisons(rows: Sequence[Any]) -> None:
    """What each configuration costs beside the one it is compared with, or why nobody knows."""
    from rmt.bench.compare import comparisons
    from rmt.bench.report import compared_cells

    for pair in comparisons(rows):
        name, way, beside, time, operations, per_operation, per_segment = compared_cells(pair)
        print(
            f"{name}  {way}  beside {beside}: {time} the time, {operations} the operations; "
            f"{per_operation} per operation, {per_segment} per segment"
        )
    measured = {row.configuration for row in rows}
    for name, beside in dict.fromkeys((row.configuration, name) for row in rows for name in row.beside):
        if beside not in measured:
            print(f"{name}  not compared: {beside} was not measured; name both")


def measure_growth(page: Any, text: Any, counts: Sequence[int], ways: Sequence[Any], updates: int) -> int:
    """Every number of segments in turn; the page is written anew after each."""
    from rmt.bench.growth import Point, border_bytes, growth
    from rmt.bench.report import draw_growth, growth_cells, write_growth

    border, points = border_bytes(text.config), list[Point]()
    for point in growth(text.name, text.config, text.task, list(counts), list(ways), updates):
        points.append(point)
        way, segments, _, median, *_, peak = growth_cells(point)
        label = f"{way}, recomputed" if point.recomputed else way
        print(f"segments {segments}  {label}  {median} ms per step  {peak} GiB", flush=True)
        write_growth(page, points, border)
    return finished(page, lambda path: draw_growth(points, path))


def finished(page: Any, draw: Callable[[Path], None] | None) -> int:
    """Draw the picture, if there is one and that is possible here, and say where everything is."""
    print(f"written: {page.path('md')}")
    if draw is None:
        return 0
    try:
        draw(page.path("png"))
        print(f"drawn: {page.path('png')}")
    except RMTError as error:  # the numbers are written all the same
        print(f"not drawn: {error}")
    return 0
