"""`rmt report`: results of many runs as tables beside the paper's, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmt.cli.front import Command, TrustOptions
from rmt.cli.notes import warn
from rmt.config import option
from rmt.errors import ConfigError
from rmt.location import trusting
from rmt.store import write_page

EXAMPLES = """examples:
  rmt report runs
  rmt report results/algorithmic.jsonl
  rmt report runs/reproduce-tiny --html report.html       claims, figures, tables, runs: one page
  rmt report runs/reproduce-gpu --latex tables.tex
  rmt report runs/reproduce-gpu --records gpu.jsonl       small, to be kept; rmt report gpu.jsonl takes it"""


@dataclass(frozen=True, kw_only=True)
class ReportOptions(TrustOptions):
    """The options of `rmt report`."""

    results: tuple[str, ...] = option(("runs",), "run folders or .jsonl files", argument="PATH")
    html: str | None = option(None, "write a page of what rmt reproduce trained to this file")
    latex: str | None = option(None, "write its tables in LaTeX to this file")
    records: str | None = option(None, "write what came out of its cells to this .jsonl file")


COMMAND = Command(
    "report",
    "Tables of results: means over seeds, the paper's numbers beside ours, and its claims.",
    EXAMPLES,
    ReportOptions,
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.cell_records import cells_below, written_cells
    from rmt.experiments.page import page
    from rmt.experiments.report import report, results_below
    from rmt.experiments.shown import REMEDY, pass_over
    from rmt.experiments.tables import latex_report, markdown_report

    paths = [Path(path) for path in options.results]
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{str(path)!r} does not exist; {REMEDY}, or train one first")
    with trusting(options.trust):
        cells, damaged = cells_below(paths)
    results, further = results_below(paths)
    pass_over([*damaged, *further], not cells and not results, warn)
    if not cells and not results:
        raise ConfigError(f"no finished run is in {', '.join(map(str, paths))}; {REMEDY}, or train one first")
    writers = {"html": page, "latex": latex_report, "records": written_cells}
    files = {name: getattr(options, name) for name in writers if getattr(options, name) is not None}
    if files and not cells:
        name, file = next(iter(files.items()))
        raise ConfigError(
            f"{name}={file} has no effect: there is nothing of rmt reproduce in {', '.join(map(str, paths))}"
        )
    for name, file in files.items():
        write_page(Path(file), writers[name](cells))
    reports = [markdown_report(cells)] if cells else []
    reports += [report(results)] if results else []
    print("\n".join(reports))
    return 0
