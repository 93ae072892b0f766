"""Fine-tuning a pretrained backbone with memory on labelled documents, in a run folder that resumes."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from rmt.config import to_dict
from rmt.documents.config import FinetuneConfig
from rmt.documents.corpus import DocumentCorpus
from rmt.documents.job import FinetuneJob, FinetuneObserver, Rows
from rmt.documents.kinds import KINDS, TaskSettings
from rmt.documents.resuming import position, put_weights, resume
from rmt.documents.scores import Scoring
from rmt.documents.stored import load_settings, stored_precision
from rmt.documents.task import Row
from rmt.documents.tuned import TunedModel, make_tuned
from rmt.errors import ConfigError, DataError, unknown
from rmt.precision import Precision
from rmt.seal import sealed
from rmt.stopping import REQUEST, Stopped
from rmt.store import whole_folder, write_json
from rmt.train.checkpoint import Checkpoints, load_parts, system_errors
from rmt.train.device import device_name, device_of, precision_to_train
from rmt.train.folder import CHECKPOINTS, delete_written, load_result, other_run, prepared
from rmt.train.log import environment
from rmt.train.processes import Processes, all_needed, device_of_process, is_first, join, world_size
from rmt.yamlfile import load_yaml

WRITTEN = (CHECKPOINTS, "model", "result.json", "metrics.jsonl", "config.yaml")


def finetune(
    config: FinetuneConfig,
    corpus: DocumentCorpus,
    folder: Path,
    observer: FinetuneObserver,
    restart: bool = False,
) -> tuple[dict[str, Any], bool]:
    """The result of a run in `folder`, and whether it was finished already."""
    stored = "auto" if restart else stored_precision(folder)
    config = replace(config, precision=precision_to_train(config.precision, stored, config.device))
    if not restart and (folder / "config.yaml").exists():
        refuse_other(config, folder)
        if result := load_result(folder):
            Checkpoints(folder).clear()  # where the end was cut short
            return result, True
    processes = launched(config)
    torch.manual_seed(config.seed)
    tuned = tuned_of(config, corpus)
    rows = encode(tuned, corpus, config, observer)
    if line := tuned.task.balance(rows["train"]):
        observer.warning(line)
    job = FinetuneJob(
        config=config, tuned=tuned, rows=rows, folder=folder, observer=observer, processes=processes
    )
    held = prepared(folder, config, discard if restart else None) if is_first() else nullcontext()
    with all_needed(), held:
        return run(job), False


def launched(config: FinetuneConfig) -> Processes:
    """This process among all of the run; weights that are split among processes are refused."""
    for name in ("DEEPSPEED", "FSDP"):
        if os.environ.get(f"ACCELERATE_USE_{name}", "").lower() in ("1", "true"):
            raise ConfigError(
                f"{name} splits weights among processes, and each segment would gather them again, while "
                "checkpoints need them whole; start with torchrun, where each process has all"
            )
    world, device = world_size(), device_of(config.device)
    if config.batch % world:
        raise ConfigError(f"batch={config.batch} does not share among {world} processes; use a multiple")
    mine = device_of_process(device)
    if world > 1:
        join(mine)
    return Processes(mine, cast(Precision, config.precision))


def tuned_of(config: FinetuneConfig, corpus: DocumentCorpus) -> TunedModel:
    """The backbone with memory and a new head, for the labels of some documents."""
    tuned = make_tuned(
        config.backbone,
        config.tokenizer,
        TaskSettings(config.task, corpus.labels, scoring_of(config, corpus), config.answer, config.lora),
        memory=config.memory,
        kind=config.kind,
        cache=config.cache,
        sink=config.sink,
        segment_length=config.segment_length,
        max_segments=config.segments,
        overlong="truncate" if config.overlong == "warn" else "error",
        bptt=config.depth,
        layout=config.layout,
        alignment=config.alignment,
        scale=config.memory_scale,
        checkpoint=config.checkpoint,
    )
    if config.precision == "64-true":
        tuned.model.double()
    return tuned


def scoring_of(config: FinetuneConfig, corpus: DocumentCorpus) -> Scoring:
    """What decides which model is best: as asked for, else the data set's own, else the task's."""
    positive = config.positive
    if positive is None and config.average is None:
        positive = corpus.positive
    if positive is not None and positive not in corpus.labels:
        raise unknown("positive", positive, corpus.labels)
    return Scoring(
        config.metric or KINDS[config.task].metrics[0],
        config.average or "macro",
        None if positive is None else corpus.labels.index(positive),
    )


def encode(
    tuned: TunedModel, corpus: DocumentCorpus, config: FinetuneConfig, observer: FinetuneObserver
) -> Rows:
    """The documents as tokens; what does not fit is counted, and told or refused."""
    rows = {
        split: [tuned.task.encode(document) for document in documents]
        for split, documents in corpus.splits.items()
    }
    for split, encoded in rows.items():
        over, settings = tuned.too_long(encoded), tuned.model.settings
        if not over:
            continue
        total = sum(len(row["input_ids"]) for row in encoded)
        counted = (
            f"{split}: {len(over)} of {len(encoded)} documents are longer than {settings.max_segments} "
            f"segments of {settings.segment_length} tokens"
        )
        if config.overlong == "error":
            raise DataError(f"{counted}, the longest by {max(over)}; use more --segments, or --overlong warn")
        observer.warning(f"{counted}: {sum(over)} of {total} tokens are dropped ({sum(over) / total:.1%})")
    return {split: [tuned.fitted(row) for row in encoded] for split, encoded in rows.items()}


def run(job: FinetuneJob) -> dict[str, Any]:
    """Train, keep the best model, measure it, and write everything down."""
    from rmt.documents.trainer import build_trainer

    device = device_name(job.processes.device.type)
    job.observer.note(f"{job.config.precision} on {device}, at most {job.steps:,} steps")
    trainer = build_trainer(job)
    ended = train(trainer, job)
    best = load_parts(job.store.folder / f"step_{ended['best_step']}")
    put_weights(job.tuned.model, best.model)
    measured = {
        split: measured_by(trainer, encoded)
        for split, encoded in job.rows.items()
        if split == "valid" or split.startswith("test")
    }
    result = result_of(job, measured, ended)
    if is_first():
        save_model(job)
        write_json(job.folder / "result.json", sealed(result))
        job.store.clear()
    job.processes.barrier()
    return result


def measured_by(trainer: Any, rows: Sequence[Row]) -> dict[str, float]:
    """The scores of documents."""
    metrics = trainer.predict(rows, metric_key_prefix="x").metrics
    return {name: metrics[f"x_{name}"] for name in trainer.job.task.metrics}


def train(trainer: Any, job: FinetuneJob) -> dict[str, Any]:
    """Where training ends, begun or gone on with."""
    saved = resume(job)
    trainer.go_on_from(saved)
    if saved and saved.trainer["over"]:
        return saved.trainer
    with REQUEST.deferred():
        trainer.train_on()
        if number := job.processes.largest(REQUEST.signal):
            step, store = trainer.state.global_step, job.store.folder
            raise Stopped(number, f"step {step} is saved in {store}; the same command goes on")
    return position(trainer)


def save_model(job: FinetuneJob) -> None:
    """Model and tokenizer in `model/`, whole or not at all."""
    folder = job.folder / "model"
    with whole_folder(folder) as partial, system_errors(folder):
        job.tuned.save(partial)


def result_of(
    job: FinetuneJob, metrics: dict[str, dict[str, float]], ended: dict[str, Any]
) -> dict[str, Any]:
    """What result.json says."""
    config, task, model = job.config, job.task, job.tuned.model
    return {
        "task": config.data,
        "model": f"{model.config.model_type}, {config.segments} × {model.settings.segment_length} tokens",
        "segment_length": model.settings.segment_length,
        "recipe": "finetune",
        "metric": task.scoring.metric,
        "value": metrics["test"][task.scoring.metric],
        "split": "test",
        "f1_of": f1_of(job),
        "metrics": metrics,
        "constant": {split: task.constant_scores(job.rows[split], job.rows["train"]) for split in metrics},
        "labels": list(task.labels),
        "seed": config.seed,
        "steps": ended["step"],
        "best_step": ended["best_step"],
        "seconds": ended["seconds"],
        "samples": len(job.rows["test"]),
        "config": to_dict(config),
        "environment": environment(job.processes.device),
    }


def f1_of(job: FinetuneJob) -> str:
    """Whose F1 the scores have."""
    scoring, task = job.task.scoring, job.task
    if not task.fewest_classes:
        return "tokens" if "f1" in task.metrics else ""
    return f"{scoring.average} mean of classes" if scoring.positive is None else task.labels[scoring.positive]


def summary(results: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean and sample deviation of what decides over runs, by split."""
    splits, metric = [split for split in results[0]["metrics"] if split != "valid"], results[0]["metric"]
    scores = {split: [result["metrics"][split][metric] for result in results] for split in splits}
    return {
        split: (statistics.mean(values), statistics.stdev(values) if len(values) > 1 else math.nan)
        for split, values in scores.items()
    }


def refuse_other(config: FinetuneConfig, folder: Path) -> None:
    """Raise if the folder belongs to another configuration, naming the first difference."""
    stored = load_settings(folder)
    stored["precision"] = precision_to_train("auto", stored_precision(folder), config.device)
    refuse_difference(stored, to_dict(config), folder)


def refuse_difference(stored: Mapping[str, Any], current: Mapping[str, Any], folder: Path) -> None:
    """Raise for the first setting of the run in a folder that is another one now."""
    for name in (*current, *stored):
        if stored.get(name) != current.get(name):
            former = stored.get(name)
            go_on = "" if former is None or isinstance(former, bool) else f" go on with --{name} {former},"
            raise other_run(folder, name, former, current.get(name), go_on)


def discard(folder: Path, besides: Sequence[str] = ()) -> None:
    """Delete what a run of `rmt finetune` wrote."""
    delete_written(folder, (*besides, *WRITTEN), is_finetuning, kind="run of rmt finetune")


def is_finetuning(folder: Path) -> bool:
    """Whether `rmt finetune` wrote a folder."""
    path = folder / "config.yaml"
    return path.exists() and "backbone" in load_yaml(path)
