"""Work with a model, segment by segment: on a GPU in the engine where it serves, recorded and replayed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.core.state import State
from rmt.gpu.engine import Engine, why_not_served
from rmt.gpu.graphs import Recorder
from rmt.precision import products

# how many callers use a model in evaluation mode now, and its modules that were training before
EVALUATING: weakref.WeakKeyDictionary[Any, tuple[int, list[Any]]] = weakref.WeakKeyDictionary()
CHANGING = Lock()
PLAIN = ""  # the precision of work that does not want the engine
Results = tuple[State, tuple[Tensor, ...]]
Work = Callable[..., Results]  # of a model, a kind, a state and tensors
Worker = Callable[..., Results]  # the same of a kind, a state and tensors

KEPT: weakref.WeakKeyDictionary[Any, dict[Hashable, RecordedWork]] = weakref.WeakKeyDictionary()


class RecordedWork:
    """Calls `work(model, kind, state, *tensors)`, which gives the state behind and tensors.

    Two calls of one `kind` and of the same shapes do the same. Tensors may be on the host. The parameters
    have to stay where they are; their contents may change: `follow` before the next call.
    """

    def __init__(self, model: SegmentModel, work: Work, precision: str):
        served = precision != PLAIN and not why_not_served(model, precision, learns=False)
        self.engine = Engine(model, torch.bfloat16, learns=False) if served else None
        self.form = model.empty_state(1)
        self.addresses, self.versions = addresses(model), versions(model)
        device = next(model.parameters()).device
        used = model if self.engine is None else self.engine.model
        self.recorder = Recorder(partial(flat_work, used, work, self.form), device.type == "cuda", device)
        if self.engine is not None:
            self.engine.begin()

    def follow(self, model: SegmentModel) -> None:
        """Take over parameters that were written to: the engine has copies of them, a plain model none."""
        now = versions(model)
        if self.engine is not None and now != self.versions:
            self.engine.begin()
            self.recorder.forget()  # it may know what the engine made of the former ones
        self.versions = now

    def __call__(self, kind: Hashable, state: State, *tensors: Tensor) -> Results:
        """The state behind the segment, and what else the work gives."""
        parts = [tensor.contiguous() for tensor in state.flat()]
        results = self.recorder(kind, *parts, *tensors)
        return self.form.unflatten(results[: len(parts)]), results[len(parts) :]


def flat_work(
    model: SegmentModel, work: Work, form: State, kind: Hashable, *inputs: Tensor
) -> tuple[Tensor, ...]:
    """Work on a state that is given and returned as tensors in a row, in front of the others."""
    size = len(form.flat())
    state, results = work(model, kind, form.unflatten(inputs[:size]), *inputs[size:])
    return *state.with_dtypes_of(form).flat(), *results


def worker_of(model: Any, work: Work, precision: str = PLAIN) -> Worker:
    """What does a work with a model now; on a GPU one recorder for all callers, as long as the model lives.

    Without a precision, the plain model works, whose parameters are used where they lie: for models in
    training, which change unnoticed.
    """
    if type(model) is not SegmentModel or not is_worth_keeping(model, precision):  # a sharded one is not
        return partial(work, model)
    kept = KEPT.setdefault(model, {})
    worker = kept.get((work, precision))
    if worker is None or worker.addresses != addresses(model):
        shared = copy(model)  # with the same parts: what is kept for a model must not keep the model itself
        worker = kept[work, precision] = RecordedWork(shared, work, precision)
    worker.follow(model)
    return worker


def is_worth_keeping(model: SegmentModel, precision: str) -> bool:
    """Whether anything can be recorded or served."""
    if next(model.parameters()).device.type == "cuda":
        return True
    return precision != PLAIN and not why_not_served(model, precision, learns=False)


def addresses(model: SegmentModel) -> tuple[int, ...]:
    """Where the parameters lie: a model that was moved or cast must not be run as it was recorded."""
    return tuple(parameter.data_ptr() for parameter in model.parameters())


def versions(model: SegmentModel) -> tuple[int, ...]:
    """How often each parameter was written to."""
    return tuple(parameter._version for parameter in model.parameters())


@contextmanager
def inference(model: Any, precision: str = PLAIN) -> Iterator[None]:
    """Without gradients and without dropout; products are in bfloat16 if the precision is mixed."""
    device = next(model.parameters()).device
    with evaluation_mode(model), torch.no_grad(), products(precision, device):
        yield


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """While this is open, nothing is dropped; of callers at once, the last one restores the model."""
    with CHANGING:
        callers, training = EVALUATING.get(model, (0, []))
        if not callers and model.training:
            training = [module for module in model.modules() if module.training]
            model.eval()
        EVALUATING[model] = callers + 1, training
    try:
        yield
    finally:
        with CHANGING:
            callers, training = EVALUATING.pop(model)
            if callers > 1:
                EVALUATING[model] = callers - 1, training
            else:
                for module in training:
                    module.training = True
