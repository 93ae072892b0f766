"""Fine-tuning a pretrained backbone with memory on labelled documents, in a run folder that resumes."""

from __future__ import annotations

import math
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch

from rmt.config import to_dict
from rmt.documents.classifier import Classifier, make_classifier
from rmt.documents.config import FinetuneConfig, renamed, stored_precision
from rmt.documents.corpus import DocumentCorpus
from rmt.errors import ConfigError, DataError
from rmt.seal import sealed
from rmt.stopping import REQUEST, Stopped
from rmt.store import write_json, write_whole
from rmt.train.device import device_name, device_of, precision_to_train
from rmt.train.folder import alone, load_result
from rmt.train.log import MetricsLog, environment
from rmt.yamlfile import load_yaml, write_yaml


class FinetuneObserver(Protocol):
    """Who is told what happens."""

    def note(self, text: str) -> None: ...

    def warning(self, text: str) -> None: ...

    def begin(self, steps: int) -> None: ...

    def logged(self, record: dict[str, Any]) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...


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
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        if restart:
            discard(folder)
        write_whole(folder / "config.yaml", write_yaml(to_dict(config)))
        return run(config, classifier, rows, folder, observer, device), False


def encode(
    classifier: Classifier, corpus: DocumentCorpus, config: FinetuneConfig, observer: FinetuneObserver
) -> dict[str, list[dict[str, Any]]]:
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


def run(
    config: FinetuneConfig,
    classifier: Classifier,
    rows: dict[str, list[dict[str, Any]]],
    folder: Path,
    observer: FinetuneObserver,
    device: str,
) -> dict[str, Any]:
    """Train, keep the best model, measure it, and write everything down."""
    from transformers.trainer_utils import get_last_checkpoint

    from rmt.documents.trainer import build_trainer

    checkpoints = folder / "checkpoints"
    observer.note(f"{config.precision} on {device_name(device)}")
    trainer = build_trainer(config, classifier, rows, checkpoints, MetricsLog(folder), observer, device)
    last = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None
    if last:
        step = int(last.rsplit("-", 1)[1])
        MetricsLog(folder).rewind(step)
        observer.note(f"going on from step {step}")
    started = time.monotonic()
    with REQUEST.deferred():
        trainer.train(resume_from_checkpoint=last)
        if REQUEST.signal:
            step = trainer.state.global_step
            raise Stopped(REQUEST.signal, f"step {step} is saved in {checkpoints}; the same command goes on")
    seconds = time.monotonic() - started
    metrics = {
        split: measured(trainer.predict(encoded, metric_key_prefix="x").metrics)
        for split, encoded in rows.items()
        if split == "valid" or split.startswith("test")
    }
    classifier.model.save_pretrained(folder / "model")
    classifier.tokenizer.save_pretrained(folder / "model")
    length = classifier.model.settings.segment_length
    result = {
        "task": config.data,
        "model": f"{classifier.model.config.model_type}, {config.segments} × {length} tokens",
        "recipe": "finetune",
        "metric": "f1",
        "value": metrics["test"]["f1"],
        "split": "test",
        "f1_of": classifier.labels[1] if len(classifier.labels) == 2 else "mean of classes",
        "metrics": metrics,
        "labels": classifier.labels,
        "seed": config.seed,
        "steps": trainer.state.global_step,
        "best_step": best_step(trainer),
        "seconds": seconds,
        "samples": len(rows["test"]),
        "config": to_dict(config),
        "environment": environment(torch.device(device)),
    }
    write_json(folder / "result.json", sealed(result))
    shutil.rmtree(checkpoints, ignore_errors=True)
    return result


def measured(metrics: dict[str, float]) -> dict[str, float]:
    return {name: metrics[f"x_{name}"] for name in ("accuracy", "f1")}


def best_step(trainer: Any) -> int:
    return int((trainer.state.best_model_checkpoint or "-0").rsplit("-", 1)[1])


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
    stored, current = renamed(load_yaml(folder / "config.yaml")), to_dict(config)
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
