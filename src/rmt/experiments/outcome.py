"""What comes out of a cell: trials of its rates on seed 0, the best on validation, and runs of its seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rmt.config import from_dict, to_dict
from rmt.errors import CheckpointError, ConfigError, RMTError
from rmt.evaluate.by_segment import accuracy_by_segment
from rmt.experiments.attention_maps import attention_maps
from rmt.experiments.cell_text import refuse_other_text, with_text
from rmt.experiments.cells import PlannedCell, recorded_so_far
from rmt.experiments.constant_answer import constant_answer
from rmt.experiments.holding import shared
from rmt.experiments.recipe import Settings, merge, resolve
from rmt.experiments.run import stored_fingerprint, train, train_seeds
from rmt.tasks.registry import task_class
from rmt.train.checkpoint import load
from rmt.train.config import RunConfig, build_task
from rmt.train.device import device_of
from rmt.train.divergence import Diverged
from rmt.train.ensemble import require_stackable
from rmt.train.folder import load_result, seed_folder
from rmt.train.log import MetricsLog

CURVE_POINTS = 40  # of a run's validation that are kept
BY_SEGMENT_SAMPLES = 1000  # test sequences whose answers are counted by segment
SLIM = ("seed", "value", "steps", "seconds", "samples", "tokens", "parameters", "state_bytes", "metrics")
HARDWARE = ("commit", "source", "torch", "device")
RECORDED = ("rate", "trials", "metric", "runs", "config")  # of a cell, beside what it is

NewObserver = Callable[[str], Any]  # of the name of a run
Begun = dict[str, Any]  # of a record: RECORDED, as far as it is known


class RateTrial(NamedTuple):
    """A rate tried on seed 0."""

    rate: float
    run: Path
    validation: float | None  # none = it diverged
    loss: float

    def rank(self, sign: int) -> tuple[float, float]:
        """Better is larger; of equal ones, that with the smaller validation loss."""
        return (-math.inf if self.validation is None else sign * self.validation, -self.loss)


def outcome(cell: PlannedCell, folder: Path, new_observer: NewObserver) -> dict[str, Any]:
    """The record of a cell; what is finished in its folder is not trained again.

    Nor is what a record of the cell with fewer seeds has: its rate stays, and the other seeds are added.
    """
    cell = with_text(cell, folder.parent)
    begun, new = all_trained(cell, folder, new_observer)
    slimmed = SLIMMED[cell.command]
    return {"cell": to_dict(cell), **with_runs(begun, [(run, slimmed(run, load_result(run))) for run in new])}


def all_trained(cell: PlannedCell, folder: Path, new_observer: NewObserver) -> tuple[Begun, list[Path]]:
    """What the record of a cell begins with, and the folders of its other runs, all of them finished.

    Other workers may train runs of the cell meanwhile: these are waited for.
    """
    refuse_other_text(cell, folder.parent)
    former = recorded_so_far(cell, folder.parent)
    begun = {name: former[name] for name in RECORDED} if former.keys() >= set(RECORDED) else {}
    return TRAINED[cell.command](cell.located(folder.parent), folder, new_observer, begun)


def trained(
    cell: PlannedCell, folder: Path, new_observer: NewObserver, begun: Begun
) -> tuple[Begun, list[Path]]:
    """The runs of a cell of `rmt train`."""
    begun, first = (begun, []) if begun else rate_chosen(cell, folder, new_observer)
    settings = cell.settings if begun["rate"] is None else cell.with_rate(begun["rate"])
    seeds = range(len(begun["runs"]) + len(first), cell.seeds)
    return begun, [*first, *seeds_trained(settings, folder, seeds, new_observer)]


def rate_chosen(cell: PlannedCell, folder: Path, new_observer: NewObserver) -> tuple[Begun, list[Path]]:
    """What is known of a cell once its rate is chosen."""
    if not cell.rates:
        return {"rate": None, "trials": [], "runs": []}, []
    runs = {trial_folder(cell, rate, folder): rate for rate in cell.rates}
    trials = shared({run: partial(tried, cell, rate, run, new_observer) for run, rate in runs.items()})
    return best_of(cell, trials, sign_of(cell))


def best_of(cell: PlannedCell, trials: Sequence[RateTrial], sign: int) -> tuple[Begun, list[Path]]:
    """The record of a cell after its trials, and the run of seed 0 where the best was as long."""
    best = max(trials, key=lambda trial: trial.rank(sign))
    if best.validation is None:
        raise ConfigError(
            f"every rate of {cell.name} diverges: {', '.join(map(str, cell.rates))}; give others"
        )
    chosen = {"rate": best.rate, "trials": [shown_trial(trial) for trial in trials], "runs": []}
    return chosen, [best.run] if cell.reuses_trial else []


def with_runs(record: dict[str, Any], runs: Sequence[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """A record with runs behind its own; metric and configuration are those of the first of all."""
    named = {**record, "runs": [*record["runs"], *(run for _, run in runs)]}
    if runs and "config" not in record:
        result = load_result(runs[0][0])
        named |= {"metric": result["metric"], "config": shown_config(result)}
    return named


def trial_folder(cell: PlannedCell, rate: float, folder: Path) -> Path:
    """Where the trial of a rate lies."""
    return folder / f"{'rate' if cell.reuses_trial else 'trial'}-{rate:g}"


def tried(cell: PlannedCell, rate: float, run: Path, new_observer: NewObserver) -> RateTrial:
    """Train seed 0 with a rate, for as long as a trial is."""
    settings, observer = cell.with_rate(rate), new_observer(run.name)
    if cell.trial_steps:
        settings = merge(settings, {"train": {"steps": cell.trial_steps}})
    try:
        result, _ = train(resolve(settings), run, observer)
    except Diverged as error:
        observer.warning(str(error))
        return RateTrial(rate, run, None, math.inf)
    sign = sign_of(cell)
    metric = result["metric"]
    record = max(evaluations(run, metric), key=lambda line: sign * line[metric])
    return RateTrial(rate, run, record[metric], record["loss"])


def sign_of(cell: PlannedCell) -> int:
    """1 if a higher value of the cell's metric is better, -1 if a lower one is."""
    return task_class(cell.settings["task"]["name"]).sign


def shown_trial(trial: RateTrial) -> dict[str, Any]:
    return {"rate": trial.rate, "run": trial.run.name, "validation": trial.validation}


def seeds_trained(settings: Settings, folder: Path, seeds: range, new_observer: NewObserver) -> list[Path]:
    """Runs of seeds, at once where that is possible; returns their folders."""
    if not seeds:
        return []
    configs = {seed_folder(folder, seed): resolve(merge(settings, {"seed": seed})) for seed in seeds}
    first = next(iter(configs.values()))
    if len(seeds) > 1 and is_stackable(first):
        observers = [new_observer(run.name) for run in configs]
        shared({next(iter(configs)): partial(train_seeds, first, folder, observers)})
    else:
        shared({run: partial(train, config, run, new_observer(run.name)) for run, config in configs.items()})
    return [*configs]


def is_stackable(config: RunConfig) -> bool:
    try:
        require_stackable(config)
    except RMTError:
        return False
    return True


def evaluations(run: Path, metric: str) -> list[dict[str, Any]]:
    """The lines of a run's log that are evaluations on the validation split."""
    log = MetricsLog(run)
    lines = [line for line in log.records() if line.get("split") == "valid" and is_measured(line, metric)]
    if not lines:
        raise CheckpointError(
            f"{str(log.path)!r} has no evaluation of {metric}; delete {str(run)!r} to train it again"
        )
    return lines


def is_measured(line: Mapping[str, Any], metric: str) -> bool:
    """Whether a line has both numbers; of a bad rate, they may be infinite."""
    return all(isinstance(line.get(name), (int, float)) for name in (metric, "loss"))


def slim(run: Path, result: dict[str, Any]) -> dict[str, Any]:
    """What a report needs of a run: numbers, hardware, validation, answers by segment; maps of seed 0."""
    record = {name: result[name] for name in SLIM if name in result}
    metric = result["metric"]
    task = build_task(from_dict(RunConfig, result["config"]).task)
    known = {"fingerprint": stored_fingerprint(run), "constant": constant_answer(task)}
    curve = [(line["step"], line[metric]) for line in evaluations(run, metric)]
    spacing = math.ceil(len(curve) / CURVE_POINTS)
    return {
        "run": run.name,
        **record,
        **{name: value for name, value in known.items() if value},
        **{name: result["environment"][name] for name in HARDWARE},
        "curve": curve[::-spacing][::-1],
        "by_segment": by_segment(run, result["config"]),
        **({} if result["seed"] else {"maps": attention_maps(run, result["config"])}),
    }


def by_segment(run: Path, settings: dict[str, Any]) -> dict[str, float]:
    """Accuracy by answer segment, where answers are generated in more than one segment."""
    config = from_dict(RunConfig, settings)
    if not task_class(config.task.name).generates or config.task.segments == 1:
        return {}
    task = build_task(config.task)
    length = task.tokens_per_segment(config.task.segments)
    samples = min(BY_SEGMENT_SAMPLES, config.train.evaluate_samples)
    model = load(run).to(device_of(config.device))
    values = accuracy_by_segment(model, task, length, samples, config.precision)
    return {str(segment): value for segment, value in values.items()}


def finetuned(
    cell: PlannedCell, folder: Path, new_observer: NewObserver, begun: Begun
) -> tuple[Begun, list[Path]]:
    """The runs of a cell of `rmt finetune`: the rate by F1 on validation, then the seeds."""
    from rmt.documents.config import FinetuneConfig
    from rmt.documents.finetune import finetune
    from rmt.documents.hyperpartisan import load_hyperpartisan

    corpus = load_hyperpartisan(cell.settings["path"])

    def result_of(rate: float, seed: int, run: Path) -> dict[str, Any]:
        settings = merge(cell.with_rate(rate), {"seed": seed})
        return finetune(from_dict(FinetuneConfig, settings), corpus, run, new_observer(run.name))[0]

    def document_trial(rate: float, run: Path) -> RateTrial:
        return RateTrial(rate, run, result_of(rate, 0, run)["metrics"]["valid"]["f1"], 0.0)

    first: list[Path] = []
    if not begun:
        runs = {trial_folder(cell, rate, folder): rate for rate in cell.rates}
        trials = shared({run: partial(document_trial, rate, run) for run, rate in runs.items()})
        begun, first = best_of(cell, trials, 1)
    seeds = range(len(begun["runs"]) + len(first), cell.seeds)
    folders = {seed_folder(folder, seed): seed for seed in seeds}
    shared({run: partial(result_of, begun["rate"], seed, run) for run, seed in folders.items()})
    return begun, [*first, *folders]


def shown_config(result: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a run; of documents with the length that their segments came to, if known."""
    config = result["config"]
    of_segments = {name: result[name] for name in ("segment_length",) if name in config and name in result}
    return {**config, **of_segments}


def slim_document(run: Path, result: dict[str, Any]) -> dict[str, Any]:
    """What a report needs of a fine-tuning run."""
    return {
        "run": run.name,
        **{name: result[name] for name in SLIM if name in result},
        **{name: result["environment"][name] for name in HARDWARE},
        "curve": [],
        "by_segment": {},
    }


TRAINED = {"train": trained, "finetune": finetuned}
SLIMMED = {"train": slim, "finetune": slim_document}
