"""Learning curves as a page that needs nothing else: values under the pointer, and a table of the runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rmt.analysis.curves import Curve, CurveSheet, PlottedRun
from rmt.analysis.pages import assemble

DIGITS = 6  # of a value: more than a screen can show


def curve_page(sheet: CurveSheet, folder: Path) -> str:
    """The page, to be written into `folder`: links lead from there to what lies in the run folders."""
    labels = list(dict.fromkeys(curve.label for chart in sheet.charts for curve in chart.curves))
    data = {
        "title": sheet.title,
        "note": sheet.note,
        "labels": labels,
        "charts": [
            {
                "quantity": chart.quantity.replace("_", " "),
                "curves": [curve_data(curve, labels.index(curve.label)) for curve in chart.curves],
            }
            for chart in sheet.charts
        ],
        "runs": [run_data(run, labels.index(run.label), folder) for run in sheet.runs],
    }
    return assemble("curves", ("curves.js",), data)


def curve_data(curve: Curve, label: int) -> dict[str, Any]:
    """A curve as the page reads it; a band only where runs were averaged."""
    columns = {"mean": curve.mean}
    if max(curve.counts) > 1:
        columns |= {"least": curve.least, "most": curve.most}
    numbers = {name: [float(f"{value:.{DIGITS}g}") for value in column] for name, column in columns.items()}
    return {
        "label": label,
        "steps": [int(step) if step == int(step) else step for step in curve.steps],
        "counts": curve.counts,
        **numbers,
    }


def run_data(run: PlottedRun, label: int, folder: Path) -> dict[str, Any]:
    """A run as a line of the table, with the way to its explorer."""
    return {
        "run": str(run.folder),
        "label": label,
        "seed": run.seed,
        "steps": run.steps,
        "result": run.result or "unfinished",
        "explorer": "" if run.explorer is None else link(run.explorer, folder),
    }


def link(page: Path, folder: Path) -> str:
    """The address of a page, as seen from a folder."""
    return quote(Path(os.path.relpath(page.resolve(), folder.resolve())).as_posix())
