"""A model that is served by its fast layers: for an update, or to read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.nn.adaptive import AdaptiveEmbedding
from rmt.nn.fast.classes import Classes, Piece
from rmt.nn.fast.lookup import Held
from rmt.nn.fast.prepared import Prepared
from rmt.nn.heads import KERNELS

MOST = 2**27  # numbers
WIDEST = 128  # heads


class Served:
    """While this is open, a model computes with what its parameters are when it begins.

    Gradients gather apart from autograd, until `deliver` hands them to the parameters.
    """

    def __init__(
        self,
        model: SegmentModel,
        dtype: torch.dtype,
        parameters: Mapping[str, Tensor] | None = None,
        learns: bool = True,
        most: int = MOST,
    ):
        """`parameters` by their names in the model, if not its own; stacked ones have a leading dimension.

        At `most` so many numbers wait for a product of many segments, of each kind of matrix.
        """
        self.model, self.dtype, self.learns, self.most = model, dtype, learns, most
        self.parameters = parameters or dict(model.named_parameters())

    @cached_property
    def layers(self) -> Prepared:
        """Made when they are needed: of seeds that are trained together, nobody needs them one by one."""
        own = {name.removeprefix("backbone."): one for name, one in self.parameters.items()}
        return Prepared(self.model.backbone, self.dtype, own, self.learns, self.most)

    @cached_property
    def table(self) -> Held | None:
        """In and out; not the many tables of narrow clusters, nor where nothing is learned."""
        embedding, own = self.model.embedding, self.parameters
        cutoffs = self.model.config.cutoffs
        place = "embedding.words" if cutoffs else "embedding"
        if not self.learns or f"{place}.weight" not in own:
            return None
        table = (own[f"{place}.weight"], own[f"{place}.bias"])
        borders = (0, *cutoffs, self.model.config.vocabulary)
        pieces = [[Piece(*table, start, stop)] for start, stop in pairwise(borders)]
        modules: list[Any] = [embedding]
        if isinstance(embedding, AdaptiveEmbedding):
            modules.append(embedding.words)
            clusters = (own["embedding.clusters.weight"], own["embedding.clusters.bias"])
            pieces[0].append(Piece(*clusters, 0, len(cutoffs)))
        outputs = [Classes(one, self.dtype, self.most) for one in pieces]
        return Held(modules, table, outputs, self.layers.stream, self.most)

    def __enter__(self) -> Served:
        with ExitStack() as opened:
            opened.enter_context(self.layers)
            if self.table is not None:
                opened.enter_context(self.table)
            self.opened = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.opened.close()

    def deliver(self) -> None:
        """Hand every parameter its gradient, to be cleared before the next update writes there again."""
        self.layers.deliver()
        if self.table is not None:
            self.table.deliver()


def served(model: SegmentModel, half: bool, learns: bool = True, most: int = MOST) -> Served | None:
    """A model in bfloat16 on a GPU, if its layers are of the kind that is written in few kernels."""
    config = model.config
    known = config.norm == "pre" and config.positions in ("relative", "rotary") and not config.cache.size
    known = known and not model.memory.in_layers
    whole = config.dropout == 0 or not model.training
    free = not learns or all(parameter.requires_grad for parameter in model.parameters())
    fits = whole and free and config.head_width <= WIDEST
    if not (half and known and fits and KERNELS and has_bfloat16()):
        return None
    return Served(model, torch.bfloat16, learns=learns, most=most)


def has_bfloat16() -> bool:
    """Whether the GPU multiplies in bfloat16 by itself."""
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))
