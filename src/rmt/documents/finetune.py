"""Fine-tuning a pretrained backbone with memory on labelled documents, in a run folder that resumes."""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rmt.config import to_dict
from rmt.documents.classifier import Classifier, make_classifier
from rmt.documents.config import FinetuneConfig
from rmt.documents.corpus import DocumentCorpus
from rmt.documents.job import FinetuneJob, FinetuneObserver, Rows
from rmt.documents.resuming import position, put_weights, resume
from rmt.documents.stored import load_settings, stored_precision
from rmt.errors import ConfigError, DataError
from rmt.partial import sweep
from rmt.seal import sealed
from rmt.stopping import REQUEST, Stopped
from rmt.store import whole_folder, write_json, write_whole
from rmt.train.checkpoint import load_parts, system_errors
from rmt.train.device import device_name, device_of, precision_to_train
from rmt.train.folder import alone, load_result
from rmt.train.log import environment
from rmt.train.stored import written
from rmt.yamlfile import load_yaml


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
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # where the end was cut short
            return result, True
    device = device_of(config.device)
    torch.manual_seed(config.seed)
    classifier = make_classifier(
        config.backbone,
        config.tokenizer,
        corpus.labels,
        memory=config.memory,
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
        classifier.model.double()
    rows = encode(classifier, corpus, config, observer)
    job = FinetuneJob(
        config=config, classifier=classifier, rows=rows, folder=folder, observer=observer, device=device
    )
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        if restart:
            discard(folder)
        sweep(folder)
        write_whole(folder / "config.yaml", written(config))
        return run(job), False


def encode(
    classifier: Classifier, corpus: DocumentCorpus, config: FinetuneConfig, observer: FinetuneObserver
) -> Rows:
    """The documents as tokens; what does not fit is counted, and told or refused."""
    rows = {
        split: [classifier.encode(document) for document in documents]
        for split, documents in corpus.splits.items()
    }
    for split, encoded in rows.items():
        over, settings = classifier.too_long(encoded), classifier.model.settings
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
    return rows


def run(job: FinetuneJob) -> dict[str, Any]:
    """Train, keep the best model, measure it, and write everything down."""
    from rmt.documents.trainer import build_trainer

    job.observer.note(f"{job.config.precision} on {device_name(job.device)}")
    trainer = build_trainer(job)
    ended = train(trainer, job)
    best = load_parts(job.store.folder / f"step_{ended['best_step']}")
    put_weights(job.classifier.model, best.model)
    metrics = {
        split: measured(trainer.predict(encoded, metric_key_prefix="x").metrics)
        for split, encoded in job.rows.items()
        if split == "valid" or split.startswith("test")
    }
    save_model(job)
    result = result_of(job, metrics, ended)
    write_json(job.folder / "result.json", sealed(result))
    shutil.rmtree(job.store.folder, ignore_errors=True)
    return result


def train(trainer: Any, job: FinetuneJob) -> dict[str, Any]:
    """Where training ends, begun or gone on with."""
    saved = resume(job)
    trainer.go_on_from(saved)
    if saved and saved.trainer["over"]:
        return saved.trainer
    with REQUEST.deferred():
        trainer.train_on()
        if REQUEST.signal:
            step, store = trainer.state.global_step, job.store.folder
            raise Stopped(REQUEST.signal, f"step {step} is saved in {store}; the same command goes on")
    return position(trainer)


def save_model(job: FinetuneJob) -> None:
    """Model and tokenizer in `model/`, whole or not at all."""
    folder = job.folder / "model"
    with whole_folder(folder) as partial, system_errors(folder):
        job.classifier.model.save_pretrained(partial)
        job.classifier.tokenizer.save_pretrained(partial)


def result_of(
    job: FinetuneJob, metrics: dict[str, dict[str, float]], ended: dict[str, Any]
) -> dict[str, Any]:
    """What result.json says."""
    config, labels, model = job.config, job.classifier.labels, job.classifier.model
    return {
        "task": config.data,
        "model": f"{model.config.model_type}, {config.segments} × {model.settings.segment_length} tokens",
        "recipe": "finetune",
        "metric": "f1",
        "value": metrics["test"]["f1"],
        "split": "test",
        "f1_of": labels[1] if len(labels) == 2 else "mean of classes",
        "metrics": metrics,
        "labels": labels,
        "seed": config.seed,
        "steps": ended["step"],
        "best_step": ended["best_step"],
        "seconds": ended["seconds"],
        "samples": len(job.rows["test"]),
        "config": to_dict(config),
        "environment": environment(torch.device(job.device)),
    }


def measured(metrics: dict[str, float]) -> dict[str, float]:
    return {name: metrics[f"x_{name}"] for name in ("accuracy", "f1")}


def summary(results: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean and sample deviation of F1 over runs, by split."""
    splits = [split for split in results[0]["metrics"] if split != "valid"]
    scores = {split: [result["metrics"][split]["f1"] for result in results] for split in splits}
    return {
        split: (statistics.mean(values), statistics.stdev(values) if len(values) > 1 else math.nan)
        for split, values in scores.items()
    }


def refuse_other(config: FinetuneConfig, folder: Path) -> None:
    """Raise if the folder belongs to another configuration, naming the first difference."""
    stored, current = load_settings(folder), to_dict(config)
    stored["precision"] = precision_to_train("auto", stored_precision(folder), config.device)
    for name in (*current, *stored):
        if stored.get(name) != current.get(name):
            raise ConfigError(
                f"out={str(folder)!r} holds a run with {name}={stored.get(name)}, not {current.get(name)}; "
                "name another --out, or start anew with --restart"
            )


def discard(folder: Path) -> None:
    """Delete what a run of this kind wrote; anything else is left alone."""
    if not any(folder.iterdir()):
        return
    if not (folder / "config.yaml").exists() or "backbone" not in load_yaml(folder / "config.yaml"):
        raise ConfigError(f"out={str(folder)!r} is not a run of rmt finetune: --restart will not delete it")
    for name in ("checkpoints", "model"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("result.json", "metrics.jsonl", "config.yaml"):
        (folder / name).unlink(missing_ok=True)
