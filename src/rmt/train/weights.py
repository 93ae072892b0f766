"""The weights of a checkpoint: by the names of this release, and of the shapes that a configuration has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from rmt.config import changed
from rmt.core.config import ModelConfig
from rmt.core.model import SegmentModel
from rmt.core.token_memory import EARLIER
from rmt.errors import CheckpointError
from rmt.seal import record_checksum

TRAINING_ONLY = ("dropout", "init")  # settings that a trained model does not compute by
RENAMED = {f"memory.{earlier}": f"memory.{name}" for earlier, name in EARLIER.items()}


class SavedModel(Protocol):
    """The part of a checkpoint that says which model it is of."""

    @property
    def model(self) -> dict[str, Tensor]: ...

    @property
    def trainer(self) -> dict[str, Any]: ...


def current_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names they have now."""
    return {RENAMED.get(name, name): tensor for name, tensor in weights.items()}


def model_checksum(config: ModelConfig) -> str:
    """What a model computes by; a setting at its default does not count: a later release may have more."""
    settings = changed(config)
    return record_checksum({name: settings[name] for name in settings if name not in TRAINING_ONLY})


def require_fit(config: ModelConfig, saved: SavedModel, source: str) -> None:
    """Refuse a checkpoint of another model than that of a configuration, before any of it is allocated."""
    described = saved.trainer.get("model", "")
    if described == model_checksum(config):
        return  # and building a model of no memory loads torch's compiler, for seconds
    weights = current_names(saved.model)
    remedy = f"put back the settings that the run was trained with: {source}"
    if config.layers > len(weights):
        raise CheckpointError(
            f"model.layers={config.layers} does not fit a checkpoint of {len(weights)} tensors; {remedy}"
        )
    with torch.device("meta"):
        expected = {name: tuple(tensor.shape) for name, tensor in SegmentModel(config).state_dict().items()}
    stored = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in (*expected, *stored):
        if stored.get(name) != expected.get(name):
            raise CheckpointError(
                f"the settings of model do not fit the checkpoint: {name} has the shape "
                f"{stored.get(name, 'none')}, with these settings {expected.get(name, 'none')}; {remedy}"
            )
    if described:
        raise CheckpointError(f"the configuration is of another model than the checkpoint; {remedy}")
