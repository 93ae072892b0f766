"""What comes out of a cell: trials of its rates on seed 0, the best on validation, and runs of its seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.config import from_dict, to_dict
from rmt.errors import CheckpointError, ConfigError, RMTError
from rmt.evaluate.by_segment import accuracy_by_segment
from rmt.experiments.attention_maps import attention_maps
from rmt.experiments.cell_text import refuse_other_text, with_text
from rmt.experiments.cells import PlannedCell, recorded_so_far
from rmt.experiments.constant_answer import constant_answer
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

NewObserver = Callable[[], Any]


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
    refuse_other_text(cell, folder.parent)
    former = recorded_so_far(cell, folder.parent)
    begun = {name: former[name] for name in RECORDED} if former.keys() >= set(RECORDED) else {}
    record = COMMANDS[cell.command](cell.located(folder.parent), folder, new_observer, begun)
    return {"cell": to_dict(cell), **record}


def trained(
    cell: PlannedCell, folder: Path, new_observer: NewObserver, begun: dict[str, Any]
) -> dict[str, Any]:
    """The outcome of a cell of `rmt train`."""
    begun = begun or rate_chosen(cell, folder, new_observer)
    settings = cell.settings if begun["rate"] is None else cell.with_rate(begun["rate"])
    new = seeds_trained(settings, folder, range(len(begun["runs"]), cell.seeds), new_observer)
    return with_runs(begun, [(run, slim(run, load_result(run))) for run in new])


def rate_chosen(cell: PlannedCell, folder: Path, new_observer: NewObserver) -> dict[str, Any]:
    """The record of a cell once its rate is chosen; the trial is the run of seed 0 where it is as long."""
    if not cell.rates:
        return {"rate": None, "trials": [], "runs": []}
    sign = sign_of(cell)
    trials = [tried(cell, rate, folder, new_observer()) for rate in cell.rates]
    best = max(trials, key=lambda trial: trial.rank(sign))
    if best.validation is None:
        raise ConfigError(
            f"every rate of {cell.name} diverges: {', '.join(map(str, cell.rates))}; give others"
        )
    chosen = {"rate": best.rate, "trials": [shown_trial(trial) for trial in trials], "runs": []}
    return with_runs(chosen, [(best.run, slim(best.run, load_result(best.run)))] if cell.reuses_trial else [])


def with_runs(record: dict[str, Any], runs: Sequence[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """A record with runs behind its own; metric and configuration are those of the first of all."""
    named = {**record, "runs": [*record["runs"], *(run for _, run in runs)]}
    if runs and "config" not in record:
        result = load_result(runs[0][0])
        named |= {"metric": result["metric"], "config": result["config"]}
    return named


def tried(cell: PlannedCell, rate: float, folder: Path, observer: Any) -> RateTrial:
    """Train seed 0 with a rate, for as long as a trial is."""
    settings = cell.with_rate(rate)
    run = folder / f"{'rate' if cell.reuses_trial else 'trial'}-{rate:g}"
    if cell.trial_steps:
        settings = merge(settings, {"train": {"steps": cell.trial_steps}})
    observer.note(f"{run.name}:")
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
    config = resolve(merge(settings, {"seed": seeds[0]}))
    folders = [seed_folder(folder, seed) for seed in seeds]
    if len(seeds) > 1 and is_stackable(config):
        train_seeds(config, folder, [new_observer() for _ in seeds])
        return folders
    for seed, run in zip(seeds, folders, strict=True):
        observer = new_observer()
        observer.note(f"{run.name}:")
        train(resolve(merge(settings, {"seed": seed})), run, observer)
    return folders


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
    cell: PlannedCell, folder: Path, new_observer: NewObserver, begun: dict[str, Any]
) -> dict[str, Any]:
    """The outcome of a cell of `rmt finetune`: the rate by F1 on validation, then the seeds."""
    from rmt.documents.config import FinetuneConfig
    from rmt.documents.finetune import finetune
    from rmt.documents.hyperpartisan import load_hyperpartisan

    corpus = load_hyperpartisan(cell.settings["path"])

    def run(rate: float, seed: int, name: str) -> tuple[Path, dict[str, Any]]:
        settings = merge(cell.with_rate(rate), {"seed": seed})
        result, _ = finetune(from_dict(FinetuneConfig, settings), corpus, folder / name, new_observer())
        return folder / name, result

    if not begun:
        trials = {rate: run(rate, 0, f"rate-{rate:g}") for rate in cell.rates}
        best = max(trials, key=lambda rate: trials[rate][1]["metrics"]["valid"]["f1"])
        scores = {rate: result["metrics"]["valid"]["f1"] for rate, (_, result) in trials.items()}
        begun = {
            "rate": best,
            "trials": [shown_trial(RateTrial(rate, trials[rate][0], scores[rate], 0.0)) for rate in trials],
            "metric": "f1",
            "runs": [slim_document(*trials[best])],
            "config": shown_config(trials[best][1]),
        }
    new = [run(begun["rate"], seed, f"seed-{seed}") for seed in range(len(begun["runs"]), cell.seeds)]
    return {**begun, "runs": [*begun["runs"], *(slim_document(*entry) for entry in new)]}


def shown_config(result: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a fine-tuning run, with the length that its segments came to, if it is known."""
    config = result["config"]
    return {**config, "segment_length": result.get("segment_length", config["segment_length"])}


def slim_document(run: Path, result: dict[str, Any]) -> dict[str, Any]:
    """What a report needs of a fine-tuning run."""
    return {
        "run": run.name,
        **{name: result[name] for name in SLIM if name in result},
        **{name: result["environment"][name] for name in HARDWARE},
        "curve": [],
        "by_segment": {},
    }


COMMANDS = {"train": trained, "finetune": finetuned}
