"""Rows of text, each in a segment of its own: whole segments are encoded at once, others piece by piece."""

# B batch · n tokens of a piece · w tokens encoded at once · T ids of the open segment · L tokens of a segment
# D width

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.config import positive
from rmt.core.model import SegmentModel
from rmt.core.recording import Recorder
from rmt.core.state import State
from rmt.core.tree import tree_items
from rmt.errors import DataError
from rmt.precision import products

PLAIN = ""  # the precision of work that is done as its caller has it
RECORDERS: weakref.WeakKeyDictionary[Any, Recorder] = weakref.WeakKeyDictionary()


class EncodedTokens(NamedTuple):
    """Tokens that were encoded together."""

    tokens: Tensor  # (B, w)
    exists: Tensor  # (B, w) bool, on the CPU: which of them a row has; these are its first ones
    hidden: Tensor  # (B, w, D)


class OpenRows:
    """The state before the open segments, and these segments: token ids, keys and values.

    Counts are on the CPU, so that deciding what to encode next never waits for the device.
    """

    def __init__(self, model: Any, state: State, segment_length: int, open: Tensor, length: Tensor):
        positive("segment_length", segment_length)
        self.model, self.state, self.segment_length = model, state, segment_length
        self.open, self.length = open, length  # (B, T) ids of the open segments, (B,) how many a row has
        self.current = torch.ones_like(length, dtype=torch.bool)  # rows whose segment `self.segment` has
        with inference(model):
            self.segment = model.open(state)
            if open.shape[1]:
                self.segment.encode(open.to(self.device), self.ragged(length, open.shape[1]))

    @property
    def device(self) -> torch.device:
        return self.state.cached.device

    @property
    def nbytes(self) -> int:
        """Bytes of the state, the ids, and what is kept for the tokens to come."""
        return self.state.nbytes + self.segment.nbytes + self.open.nbytes + self.length.nbytes

    def fork(self) -> OpenRows:
        """Rows that go on by themselves; nothing is copied, since nothing is overwritten."""
        other = copy(self)
        other.segment = self.segment.fork()
        return other

    def next(self, left: Tensor) -> Tensor:
        """How many tokens each row encodes next if it has `left` (B,): segments at their start go whole."""
        whole = (self.length == 0) & (left >= self.segment_length)
        if bool(whole.any()):
            return whole * self.segment_length
        return torch.minimum(left, self.segment_length - self.length)

    def encode(self, tokens: Tensor, take: Tensor) -> EncodedTokens:
        """Encode the next tokens (B, w), of which a row has the first `take` (B,) as `next` said."""
        tokens, ragged = tokens.to(self.device), self.ragged(take, tokens.shape[1])
        exists = torch.arange(tokens.shape[1]) < take[:, None]
        with inference(self.model):
            whole = bool(((self.length == 0) & (take == self.segment_length)).any())
            hidden = (self.encode_whole if whole else self.encode_on)(tokens, take, ragged, exists)
        return EncodedTokens(tokens, exists, hidden)

    def encode_whole(self, tokens: Tensor, take: Tensor, ragged: Tensor | None, exists: Tensor) -> Tensor:
        """A whole segment in each row that takes one, and nothing in the others."""
        if ragged is None and tokens.is_cuda and isinstance(self.model, SegmentModel):
            before = (part.contiguous() for part in self.state.flat())
            hidden, *after = recorder_of(self.model)(addresses(self.model), tokens, *before)
            state = self.state.unflatten(after)
        else:
            encoded = self.model.encode(tokens, self.state, ragged)
            hidden, state = encoded.hidden, encoded.state
        require_finite(hidden if ragged is None else hidden[exists.to(self.device)], "hidden states")
        require_finite_memory(state)
        self.state, self.current = state, self.current & (take == 0)
        return hidden

    def encode_on(self, tokens: Tensor, take: Tensor, ragged: Tensor | None, exists: Tensor) -> Tensor:
        """The next tokens of each row's segment; segments that are full then are closed."""
        segment = self.opened(take)
        hidden = segment.encode(tokens, ragged)
        require_finite(hidden[exists.to(self.device)], "hidden states")
        self.segment = segment
        self.open = appended(self.open, self.length, tokens.cpu(), take)
        self.length = self.length + take
        self.close(self.length == self.segment_length)
        return hidden

    def opened(self, take: Tensor) -> Any:
        """The open segments, in which every row that takes tokens is in its own."""
        late = ~self.current & (take > 0)
        if not bool((self.current & (self.length > 0)).any()):
            self.current = torch.ones_like(self.current)
            return self.model.open(self.state)
        segment = self.segment.fork()
        if bool(late.any()):
            segment.turn(late.to(self.device), self.state)
            self.current = self.current | late
        return segment

    def close(self, rows: Tensor) -> None:
        """Run the write block of these rows (B,); their next token opens a new segment."""
        rows = rows & (self.length > 0)
        if not bool(rows.any()):
            return
        with inference(self.model):
            state = self.segment.close().where(rows.to(self.device), self.state)
        require_finite_memory(state)
        self.state = state
        self.length, self.current = self.length * ~rows, self.current & ~rows
        self.open = self.open[:, : int(self.length.max())]

    def ragged(self, take: Tensor, width: int) -> Tensor | None:
        """Lengths for the model, or none where every row has all tokens, which is faster."""
        return None if bool((take == width).all()) else take.to(self.device)


def recorder_of(model: SegmentModel) -> Recorder:
    """What encodes whole segments, for all sessions of a model: a recording holds the memory of a segment."""
    if model not in RECORDERS:
        weak = weakref.ref(model)  # the recorder lives as long as the model, not the other way round
        form = model.empty_state(1)

        def full(_: tuple[int, ...], tokens: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
            model = weak()
            assert model is not None, "a recorder is used while its model lives"
            encoded = model.encode(tokens, form.unflatten(state))
            return encoded.hidden, *encoded.state.flat()

        RECORDERS[model] = Recorder(full, enabled=True)
    return RECORDERS[model]


def addresses(model: SegmentModel) -> tuple[int, ...]:
    """Where the parameters lie: a model that was moved or cast must not be run as it was recorded."""
    return tuple(parameter.data_ptr() for parameter in model.parameters())


@contextmanager
def inference(model: Any, precision: str = PLAIN) -> Iterator[None]:
    """Without gradients and without dropout; products are in bfloat16 if the precision is mixed."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        with torch.no_grad(), products(precision, next(model.parameters()).device):
            yield
    finally:
        if was_training:
            model.train()


def require_finite_memory(state: State) -> None:
    """Refuse memory that is not a number."""
    for path, tensor in tree_items(state.carried):
        if tensor.is_floating_point():
            require_finite(tensor, f"memory {path}")


def require_finite(tensor: Tensor, what: str) -> None:
    """Refuse what is not a number, before it gets into a state."""
    if not bool(tensor.isfinite().all()):
        raise DataError(
            f"the model's {what} have NaN or inf: its weights (embedding, memory) or the state are damaged, "
            "or too large for its number format; load an undamaged checkpoint"
        )


def appended(open: Tensor, length: Tensor, tokens: Tensor, take: Tensor) -> Tensor:
    """Ids (B, T), left-aligned, with the first `take` of `tokens` (B, w) behind each row's `length`."""
    width = int((length + take).max())
    wide = torch.nn.functional.pad(open, (0, width + tokens.shape[1] - open.shape[1]))
    column = length[:, None] + torch.arange(tokens.shape[1])
    return wide.scatter(1, column, tokens)[:, :width].clone()
