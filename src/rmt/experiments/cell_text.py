"""Which text a cell learns from, wherever it lies and whatever it is called: known by its fingerprint."""

from __future__ import annotations

from pathlib import Path

from rmt.errors import ConfigError, RMTError
from rmt.experiments.cells import PlannedCell, recorded_so_far
from rmt.experiments.data_location import data_of
from rmt.experiments.recipe import resolve
from rmt.experiments.run import stored_fingerprint
from rmt.train.config import build_task


def with_text(cell: PlannedCell, folder: Path) -> PlannedCell:
    """The cell with the fingerprint of its text, if that is here; else as it was planned."""
    return cell.replaced(text=text_of(cell, folder) or cell.text)


def text_of(cell: PlannedCell, folder: Path) -> str:
    """The fingerprint of a cell's text; nothing where that is not here, or all is drawn."""
    located = cell.located(folder)
    if not data_of(located.settings):
        return ""
    try:
        return build_task(resolve(located.settings).task).fingerprint
    except RMTError:
        return ""


def refuse_other_text(cell: PlannedCell, folder: Path) -> None:
    """Raise where runs of a cell, recorded or in its folder, are of another text than the cell now."""
    for run, text in texts_of_runs(cell, folder).items() if cell.text else ():
        if text and text != cell.text:
            raise ConfigError(
                f"out={str(folder)!r} holds {cell.name}/{run} of another text than "
                f"{data_of(cell.settings)} is now; name another --out, or put the former text back"
            )


def texts_of_runs(cell: PlannedCell, folder: Path) -> dict[str, str | None]:
    """The fingerprints of a cell's runs by their names; a record of an earlier release has none."""
    recorded = recorded_so_far(cell, folder).get("runs", ())
    begun = [file.parent for file in sorted((folder / cell.name).glob("*/config.yaml"))]
    return {run["run"]: run.get("fingerprint") for run in recorded} | {
        run.name: stored_fingerprint(run) for run in begun
    }
