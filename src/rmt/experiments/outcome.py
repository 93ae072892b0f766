"""What comes out of a cell: trials of its rates on seed 0, the best on validation, and runs of its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rmt.config import to_dict
from rmt.experiments.cell_text import refuse_other_text, with_text
from rmt.experiments.cells import PlannedCell, recorded_so_far
from rmt.experiments.holding import NewObserver, RunPart, shared
from rmt.experiments.settings import Settings
from rmt.experiments.trials import RateTrial, best_of, shown_trial, trial_folder
from rmt.train.folder import load_result, seed_folder

RECORDED = ("rate", "trials", "metric", "runs", "config")  # of a cell, beside what it is

Begun = dict[str, Any]  # of a record: RECORDED, as far as it is known


class CellRuns(Protocol):
    """What trains the runs of a cell."""

    cell: PlannedCell  # with data that are found
    sign: int  # 1 if more of the metric is better, -1 if less

    def tried(self, rate: float, run: Path) -> RateTrial: ...

    def of_seeds(self, settings: Settings, seeds: Sequence[int]) -> list[RunPart]: ...

    def slim(self, run: Path, result: dict[str, Any]) -> dict[str, Any]: ...


def runs_of(cell: PlannedCell, folder: Path, new_observer: NewObserver) -> CellRuns:
    """What trains the runs of a cell in its folder: the command that the cell is of."""
    located = cell.located(folder.parent)
    if cell.command == "finetune":
        from rmt.experiments.document_runs import DocumentRuns  # transformers, which the other does not need

        return DocumentRuns(located, folder, new_observer)
    from rmt.experiments.trained_runs import TrainedRuns

    return TrainedRuns(located, folder, new_observer)


def outcome(cell: PlannedCell, folder: Path, new_observer: NewObserver) -> dict[str, Any]:
    """The record of a cell; what is finished in its folder is not trained again.

    Nor is what a record of the cell with fewer seeds has: its rate stays, and the other seeds are added.
    Other workers may train runs of the cell meanwhile: these are waited for.
    """
    cell = with_text(cell, folder.parent)
    runs = runs_of(cell, folder, new_observer)
    begun, new = all_trained(cell, folder, runs, waits=True)
    slimmed = [(run, runs.slim(run, load_result(run))) for run in new]
    return {"cell": to_dict(cell), **with_runs(begun, slimmed)}


def take_part(cell: PlannedCell, folder: Path, new_observer: NewObserver) -> None:
    """Train runs of a cell that another worker has; raises `CellInUse` when others train all that is left."""
    cell = with_text(cell, folder.parent)
    all_trained(cell, folder, runs_of(cell, folder, new_observer), waits=False)


def all_trained(cell: PlannedCell, folder: Path, runs: CellRuns, waits: bool) -> tuple[Begun, list[Path]]:
    """What the record of a cell begins with, and the folders of its other runs, all of them finished."""
    refuse_other_text(cell, folder.parent)
    former = recorded_so_far(cell, folder.parent)
    begun = {name: former[name] for name in RECORDED} if former.keys() >= set(RECORDED) else {}
    begun, first = (begun, []) if begun else rate_chosen(cell, folder, runs, waits)
    settings = runs.cell.settings if begun["rate"] is None else runs.cell.with_rate(begun["rate"])
    seeds = range(len(begun["runs"]) + len(first), cell.seeds)
    shared(runs.of_seeds(settings, seeds), waits)
    return begun, [*first, *(seed_folder(folder, seed) for seed in seeds)]


def rate_chosen(cell: PlannedCell, folder: Path, runs: CellRuns, waits: bool) -> tuple[Begun, list[Path]]:
    """What is known of a cell once its rate is chosen, and the run of seed 0 where a trial was as long."""
    if not cell.rates:
        return {"rate": None, "trials": [], "runs": []}, []
    folders = {trial_folder(cell, rate, folder): rate for rate in cell.rates}
    parts = [RunPart([run], partial(runs.tried, rate, run)) for run, rate in folders.items()]
    trials = shared(parts, waits)
    best = best_of(cell, trials, runs.sign)
    chosen = {"rate": best.rate, "trials": [shown_trial(trial) for trial in trials], "runs": []}
    return chosen, [best.run] if cell.reuses_trial else []


def with_runs(record: dict[str, Any], runs: Sequence[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """A record with runs behind its own; metric and configuration are those of the first of all."""
    named = {**record, "runs": [*record["runs"], *(run for _, run in runs)]}
    if runs and "config" not in record:
        result = load_result(runs[0][0])
        named |= {"metric": result["metric"], "config": shown_config(result)}
    return named


def shown_config(result: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a run; of documents with the length that their segments came to, if known."""
    config = result["config"]
    of_segments = {name: result[name] for name in ("segment_length",) if name in config and name in result}
    return {**config, **of_segments}
