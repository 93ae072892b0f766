"""The runs of a cell that are still to be trained: trials of rates first, then seeds."""

from __future__ import annotations

from pathlib import Path

from rmt.experiments.cells import PlannedCell, recorded_so_far, seeds_of
from rmt.experiments.trials import has_diverged, trial_folder
from rmt.train.folder import seed_folder


def runs_left(cell: PlannedCell, folder: Path) -> list[Path]:
    """The runs that a cell in a folder needs next, in any order, whoever may be training them."""
    record = recorded_so_far(cell, folder.parent)
    if not record:
        trials = [trial_folder(cell, rate, folder) for rate in cell.rates]
        if left := [run for run in trials if not is_over(run)]:
            return left
    done = seeds_of(record) if record else int(cell.reuses_trial)
    return [run for seed in range(done, cell.seeds) if not is_over(run := seed_folder(folder, seed))]


def is_over(run: Path) -> bool:
    return has_diverged(run) or (run / "result.json").exists()
