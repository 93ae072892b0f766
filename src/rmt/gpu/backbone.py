"""A backbone that encodes whole segments in kernels, and all else as the plain one does."""

# S seeds · B batch · C cached rows · R rows of a segment · T rows that come out of the last layer · D width

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rmt.errors import RMTError
from rmt.gpu.dropout import Dropout
from rmt.gpu.layers import differentiate, encode
from rmt.gpu.parameters import FastParameters
from rmt.gpu.segment import SegmentCall
from rmt.nn.attention import Attend, KeyValue, fused
from rmt.nn.axis import Axis
from rmt.nn.backbone import Around, Backbone, BackboneOutput


class FastBackbone(Backbone):
    """Whole segments in kernels; stepping, ragged rows and attention maps in the plain layers."""

    weights: FastParameters
    segments: int  # encoded since the update began
    keeps_records: bool  # of what backward needs; else segments are going to be encoded again
    without_records: dict[int, SegmentCall]  # segments that were encoded so, by their numbers

    def begin(self) -> None:
        """Count the segments of an update anew."""
        self.segments, self.keeps_records, self.without_records = 0, True, {}

    def forward(
        self,
        x: Tensor,
        axis: Axis,
        cache: tuple[Tensor, ...] = (),
        past: tuple[KeyValue, ...] = (),
        attend: Attend = fused,
        last: int | None = None,
        around: Around | None = None,
    ) -> BackboneOutput:
        """As `Backbone.forward`; an axis whose mask all rows share is that of a whole segment."""
        if last is None or past or around is not None or attend is not fused or axis.mask.dim() != 2:
            return super().forward(x, row_by_row(axis), cache, past, attend, last, around)
        call = self.without_records.pop(self.segments, None)
        if call is None:
            call = self.new_call(axis, x.shape[1], last)
        else:
            call.keeps = True
        hidden, *layer_inputs = EncodeSegment.apply(x, axis.present, call, *(cache if call.cache else ()))
        self.segments += 1
        return BackboneOutput(hidden, tuple(layer_inputs), (), ())

    def new_call(self, axis: Axis, rows: int, last: int) -> SegmentCall:
        """What is asked of the layers."""
        probability = self.dropout.p if self.dropout.training else 0.0  # in the mode of the plain backbone
        dropout = Dropout(self.weights.dropout_keys, probability, self.segments)
        learns = torch.is_grad_enabled() and self.weights.settings.learns and last > 0
        call = SegmentCall(self.weights, axis, rows, last, dropout, learns and self.keeps_records)
        if learns and not self.keeps_records:
            self.without_records[self.segments] = call
        return call

    @contextmanager
    def keeping_no_records(self) -> Iterator[None]:
        """Encode segments that will be encoded `again` before they are differentiated."""
        self.keeps_records = False
        try:
            yield
        finally:
            self.keeps_records = True

    @contextmanager
    def again(self, number: int) -> Iterator[None]:
        """Encode segment `number` of the update a second time, with its masks, to have its records."""
        counted, self.segments = self.segments, number
        try:
            yield
        finally:
            self.segments = counted


def row_by_row(axis: Axis) -> Axis:
    """An axis of a whole segment as the plain layers take it: rows see what they have of the cache."""
    if axis.mask.dim() != 2 or not len(axis.present):
        return axis
    missing = axis.mask.shape[-1] - axis.present
    mask = axis.mask & (axis.positions >= missing[:, None, None, None])  # (B, 1, Q, K)
    return axis._replace(mask=mask)


class EncodeSegment(torch.autograd.Function):
    """The backbone as a function of rows (B, R, D): the last T of them, and with a cache each layer's input.

    Everything has S in front where seeds are stacked. What backward needs is in the call, not in autograd's
    graph.
    """

    @staticmethod
    def forward(x: Tensor, present: Tensor, call: SegmentCall, *cache: Tensor) -> tuple[Tensor, ...]:
        if cache:
            call.missing = (call.axis.mask.shape[-1] - present).flatten().int()
        with torch.cuda.device_of(x):
            return encode(x, cache, call)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, present, ctx.call, *_ = inputs
        ctx.shape = x.shape
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(present)  # asked for it, `Engine.recomputed` encodes the segment again

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        call, _ = ctx.call, ctx.saved_tensors
        if call.last and not call.records:
            raise RMTError(
                "this segment has no records: it was differentiated before, or its Engine has learns=False; "
                "encode it again"
            )
        with torch.cuda.device_of(gradient):
            to_x = differentiate(gradient, call) if call.last else gradient.new_zeros(ctx.shape)
        call.forget()
        return to_x.reshape(ctx.shape).to(gradient.dtype), *(None,) * (len(ctx.needs_input_grad) - 1)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: Tensor,
        present: Tensor,
        call: SegmentCall,
        *cache: Tensor,
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """All seeds at once."""
        dims = in_dims[0], in_dims[1], *in_dims[3:]
        x, present, *moved = (
            tensor if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip((x, present, *cache), dims, strict=True)
        )
        outputs = EncodeSegment.apply(x, present, call, *moved)
        return outputs, (0,) * len(outputs)
