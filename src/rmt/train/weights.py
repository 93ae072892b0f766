"""The weights of a checkpoint: by the names of this release, and of the shapes that a configuration has."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rmt.core.config import ModelConfig
from rmt.core.model import SegmentModel
from rmt.core.token_memory import EARLIER
from rmt.errors import CheckpointError

RENAMED = {f"memory.{earlier}": f"memory.{name}" for earlier, name in EARLIER.items()}


def current_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names they have now."""
    return {RENAMED.get(name, name): tensor for name, tensor in weights.items()}


def require_fit(config: ModelConfig, weights: Mapping[str, Tensor], source: str) -> None:
    """Refuse weights that are not those of a configuration, before anything of its size is allocated."""
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
