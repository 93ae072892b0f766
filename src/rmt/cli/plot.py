"""`rmt plot RUN…`: the learning curves of one or many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmt.cli.front import Command, Options
from rmt.cli.notes import warn
from rmt.config import option
from rmt.errors import ConfigError, shown
from rmt.store import write_page

if TYPE_CHECKING:
    from rmt.analysis.curves import CurveSheet

EXAMPLES = """examples:
  rmt plot runs/copy-8-3-rmt-modern-0                one run; a page in its folder
  rmt plot runs -o curves.png                        all runs below a folder, seeds of a setting as a band
  rmt plot runs/copy-8-3-rmt-modern runs/copy-8-3-transformer_xl-modern -o models.svg
  rmt plot RUN --metric perplexity"""
KINDS = (".html", ".png", ".svg")


@dataclass(frozen=True, kw_only=True)
class PlotOptions(Options):
    """The options of `rmt plot`."""

    runs: tuple[str, ...] = option(("runs",), "run folders, or folders of many runs", argument="RUN")
    out: str | None = option(
        None, "the page (.html) or picture (.png, .svg) to write; none = curves.html in RUN, or here if many"
    )
    metric: str | None = option(None, "what to draw of the evaluations; none = what the task is judged by")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out is not None and Path(self.out).suffix.lower() not in KINDS:
            raise ConfigError(f"out={shown(self.out)} must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}")


COMMAND = Command(
    "plot",
    "Learning curves of one or many runs: loss and metric over steps, as a page or a picture.",
    EXAMPLES,
    PlotOptions,
    aliases={"o": "out"},
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.listed import listed_runs
    from rmt.experiments.plotting import curve_sheet

    runs = listed_runs(map(Path, options.runs), warn)
    sheet = curve_sheet(runs, options.metric)
    target = Path(options.out) if options.out else default_page(options.runs)
    write(sheet, target)
    count, curves = len(sheet.runs), max(len(chart.curves) for chart in sheet.charts)
    print(f"curves: {target} ({count} {plural('run', count)}, {curves} {plural('curve', curves)})")
    return 0


def default_page(runs: Sequence[str]) -> Path:
    """Where the page goes that nobody gave a name."""
    return (Path(runs[0]) if len(runs) == 1 else Path()) / "curves.html"


def write(sheet: CurveSheet, target: Path) -> None:
    """Write the picture that the ending asks for."""
    from rmt.analysis.curve_figure import draw_curves
    from rmt.analysis.curve_page import curve_page

    if target.suffix.lower() == ".html":
        write_page(target, curve_page(sheet, target.absolute().parent))
        return
    draw_curves(sheet, target)


def plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
