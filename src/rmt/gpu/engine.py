"""The engine: a model's fast copy for a GPU, for updates or to encode only.

The copy shares the model's memory and parameters; its backbone, embedding and cache are the fast ones. The
plain model never knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rmt.core.model import SegmentModel
from rmt.core.state import State
from rmt.core.unroll import RecurrentCell, Result
from rmt.errors import ConfigError
from rmt.gpu import naive
from rmt.gpu.backbone import FastBackbone
from rmt.gpu.cache import FastCache
from rmt.gpu.embedding import FastAdaptiveEmbedding, FastTiedEmbedding, TokenTable, token_table
from rmt.gpu.model import FastModel
from rmt.gpu.parameters import FastParameters
from rmt.gpu.settings import EngineSettings
from rmt.gpu.tiles import DEFAULTS, TILES
from rmt.gpu.tiles_file import load_tiles
from rmt.gpu.weight_gradients import MAX_WAITING_ELEMENTS
from rmt.precision import multiplies_in_bfloat16

POSITIONS = ("relative", "rotary")
# number format of products by precision; those of float32 run in TF32, which every card with bfloat16 has
FORMATS = {"bf16-mixed": torch.bfloat16, "32-true": torch.float32}
MAX_HEAD_WIDTH = 128  # what a tile of attention holds in an H200's registers


class Engine:
    """A model's fast copy `model`, what it computes with, and the gradients of an update.

    An update is `begin()`, segments through `model`, backward, `deliver()`. Without gradients, `begin()` is
    needed once, and again when parameters have changed. In bfloat16 `model` is called under autocast: logits
    without targets, ragged rows and pieces of a segment are computed by the plain layers.
    """

    def __init__(
        self,
        model: SegmentModel,
        dtype: torch.dtype,
        *,
        learns: bool = True,
        recompute: bool = False,
        parameters: Mapping[str, Tensor] | None = None,
        operations: ModuleType | None = None,
        max_waiting: int = MAX_WAITING_ELEMENTS,
    ):
        """Products are in `dtype`; `recompute` leaves no more in memory than `recomputed` cells need.

        `parameters` by their names in the model, if not its own; stacked ones have the seeds in front.
        """
        if model.config.positions not in POSITIONS:
            raise ConfigError(
                f"positions={model.config.positions!r} has no kernels; use {' or '.join(POSITIONS)}, or the "
                "plain model"
            )
        parameters = parameters or dict(model.named_parameters())
        device = next(iter(parameters.values())).device
        self.settings = EngineSettings(
            dtype, operations or operations_for(device), learns, 0 if recompute else max_waiting
        )
        in_backbone = {name.removeprefix("backbone."): tensor for name, tensor in parameters.items()}
        self.weights = FastParameters(model.config, in_backbone, self.settings)
        self.table: TokenTable | None = None  # none where clusters have narrow tables: the plain ones serve
        self.model = self.fast_copy(model, parameters)
        self.model.cache = FastCache(model.config.cache, copies=recompute)

    def fast_copy(self, model: SegmentModel, parameters: Mapping[str, Tensor]) -> FastModel:
        """The model with other modules for its backbone and embedding, over the same parameters."""
        backbone = copy_as(FastBackbone, model.backbone)
        backbone.weights = self.weights
        backbone.begin()
        modules: dict[str, nn.Module] = {"backbone": backbone}
        if model.config.div_val == 1 or not model.config.cutoffs:
            kind = FastAdaptiveEmbedding if model.config.cutoffs else FastTiedEmbedding
            self.table = token_table(
                model.config.cutoffs, parameters, self.settings, self.weights.residual_dtype
            )
            modules["embedding"] = copy_as(kind, model.embedding)
            modules["embedding"].table = self.table  # type: ignore[assignment]
        fast = copy_as(FastModel, model)
        fast._modules = {**model._modules, **modules}
        return fast

    def begin(self, keys: Tensor | None = None, segments: int = 0) -> None:
        """Take over the parameters as they are now, with gradients of zero.

        `keys` (2,) or (S, 2) make the masks of dropout, as `rmt.gpu.dropout.update_keys` gives them. Of how
        many `segments` are to come, if that is known, relative positions are projected at once.
        """
        self.model.backbone.begin()
        self.weights.begin(segments)
        if self.table is not None:
            self.table.begin()
        if keys is not None:
            self.weights.dropout_keys.copy_(keys.view(-1, 2))

    def recomputed(self, cell: RecurrentCell[Result]) -> RecurrentCell[Result]:
        """A cell of the fast copy whose segments are computed again in the backward pass, masks and all.

        Only states at borders are kept. No random generator is set back, so updates can still be recorded.
        """
        backbone = self.model.backbone

        def encode(segment: Any, state: State) -> Result:
            contexts = backbone.keeping_no_records(), backbone.again(backbone.segments)
            result: Result = checkpoint(
                cell, segment, state,
                use_reentrant=False, preserve_rng_state=False, context_fn=lambda: contexts,
            )  # fmt: skip
            return result

        return encode

    def deliver(self) -> None:
        """Hand every parameter its gradient, to be cleared before the next update adds to it."""
        self.weights.deliver()
        if self.table is not None:
            self.table.deliver()


def copy_as(kind: Any, module: nn.Module) -> Any:
    """A module of another class over the same parameters and modules."""
    other = copy(module)
    other._modules, other._parameters = {**module._modules}, {**module._parameters}
    other.__class__ = kind
    return other


def operations_for(device: torch.device) -> ModuleType:
    """The kernels on a GPU, their plain twins elsewhere."""
    if device.type != "cuda":
        return naive
    from rmt.gpu.kernels import operations

    TILES.update(load_tiles(torch.cuda.get_device_name(device), DEFAULTS))
    return operations


def why_not_served(model: SegmentModel, precision: str, learns: bool = True) -> str:
    """Why a model is left to the plain layers on its device; nothing where the engine serves it."""
    config, device = model.config, next(model.parameters()).device
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    reasons = {
        f"it serves CUDA devices, not {device.type}": device.type != "cuda",
        f"precision={precision} has no kernels": precision not in FORMATS,
        "products in TF32 are for training only": precision == "32-true" and not learns,
        "the GPU multiplies neither in bfloat16 nor in TF32": not multiplies_in_bfloat16(device),
        "Triton is not installed": find_spec("triton") is None,  # torch's has_triton loads its compiler
        f"memory.kind={config.memory.kind} lives in the layers": model.memory.in_layers,
        f"cache.sink={config.cache.sink} is kept row by row": config.cache.sink > 0,
        f"positions={config.positions} look at what comes later": config.positions not in POSITIONS,
        f"head_width={config.head_width} is above {MAX_HEAD_WIDTH}": config.head_width > MAX_HEAD_WIDTH,
        f"{next(iter(frozen), '')} is frozen": learns and bool(frozen),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
