"""Recomputed segments: what is kept from the forward pass for a further one is the state at its border."""

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rmt import Output, SegmentModel, State, presets
from rmt.core.unroll import unroll
from rmt.gpu.engine import Engine
from tests.covering import quick

SIZES = {"vocabulary": 7, "layers": 2, "heads": 2, "head_width": 4, "width": 16, "inner_width": 8}
MODELS = {
    "rmt": presets.rmt(2, **SIZES),
    "transformer_xl": presets.transformer_xl(3, **SIZES),
    "transformer_xl_rmt": presets.transformer_xl_rmt(2, 3, **SIZES),
}
SCALARS = 64  # bytes: the loss of a segment


class Tensors(TorchDispatchMode):
    """Bytes of the tensors that operations make, now and at most."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        made = operation(*arguments, **(options or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in self.sizes:
                storage = tensor.untyped_storage()
                self.sizes[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, storage._cdata)
        self.most = max(self.most, sum(self.sizes.values()))
        return made


def peak(model: SegmentModel, segments: int, checkpoint: bool, engine: Engine | None = None) -> int:
    """The most bytes in use while a loss over all segments is differentiated."""
    tokens = torch.randint(7, (3, 20), generator=torch.Generator().manual_seed(0))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def cell(part: Tensor, state: State) -> Output:
        return model(part, state, targets=part)

    if engine is not None:
        engine.begin()
        cell = engine.recomputed(cell) if checkpoint else cell
    with Tensors() as tensors:
        steps = unroll(cell, [tokens] * segments, model.initial_state(3), checkpoint and engine is None)
        torch.stack([output.losses.sum() for output in steps]).sum().backward()
    return tensors.most


@pytest.mark.parametrize("name", MODELS)
def test_a_further_segment_costs_its_border_state_and_nothing_else(name):
    model = SegmentModel(MODELS[name])
    grown = (peak(model, 9, True) - peak(model, 5, True)) / 4
    assert grown <= model.initial_state(3).nbytes + SCALARS
    assert (peak(model, 9, False) - peak(model, 5, False)) / 4 > 10 * grown


@pytest.mark.parametrize("name", quick({name: name for name in MODELS}, "rmt"))
def test_so_it_is_where_gradients_gather_apart_from_autograd(name):
    model, grown = SegmentModel(MODELS[name]), {}
    for checkpoint in (True, False):
        engine = Engine(model, torch.float64, recompute=checkpoint)
        peak(engine.model, 1, checkpoint, engine)  # what is always the same is made once
        longer, shorter = (peak(engine.model, segments, checkpoint, engine) for segments in (9, 5))
        grown[checkpoint] = (longer - shorter) / 4
    assert grown[True] <= model.initial_state(3).nbytes + SCALARS
    assert grown[False] > 10 * grown[True]
