"""What result.json says of a run and of its tested model."""

from __future__ import annotations

from typing import Any

from rmt.config import to_dict
from rmt.core.model import SegmentModel
from rmt.train.log import environment
from rmt.train.trainer import Trainer


def run_record(trainer: Trainer, model: SegmentModel, metrics: dict[str, float]) -> dict[str, Any]:
    """The result of a trained model, and all that decided it."""
    task, config = trainer.task, trainer.config
    return {
        "task": task.name,
        "task_version": task.version,
        "model": config.preset,
        "recipe": config.recipe,
        "metric": task.metric,
        "value": metrics[task.metric],
        "split": "test",
        "metrics": metrics,
        "seed": config.seed,
        "steps": trainer.step,
        "seconds": round(trainer.seconds, 3),
        "samples": trainer.samples,
        "tokens": trainer.tokens,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "state_bytes": model.initial_state(1).nbytes,
        "processes": trainer.processes.world_size,
        "config": to_dict(config),
        "environment": environment(trainer.processes.device),
    }
