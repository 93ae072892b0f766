"""A segment encoded piece by piece: keys and values are kept, the write block runs once, at the end.

Rows may be at different places: tokens that a row does not have take no place on its axis, and a row can turn
over to a new segment while others are still in theirs.
"""

# B batch · n new tokens · T columns of tokens so far · M memory · C cache · N layers · D width · V vocabulary

from __future__ import annotations

from copy import copy
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rmt.core.inputs import require_segment
from rmt.core.memory import LayerMemory
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.nn.attention import KeyValue
from rmt.nn.backbone import BackboneOutput

if TYPE_CHECKING:
    from rmt.core.model import SegmentModel


class OpenSegment:
    """Equal to the whole segment at once, since no token sees what comes after it."""

    def __init__(self, model: SegmentModel, state: State, room: int = 0):
        """With `room` for so many tokens, keys and values are written to one place, without gradients."""
        self.model = model
        self.state = state
        self.length = 0  # T
        self.exists: Tensor | None = None  # (B, T) which columns a row has; none = all
        self.past: tuple[KeyValue, ...] = ()  # N × keys and values of [cache ∘ read ∘ tokens so far]
        read = self.advance(model.read_block(state), model.spans(0, write=False))
        rows = room + model.spans(0).write
        self.past = tuple(seen.with_room(rows) if room else seen for seen in read.seen)
        self.layer_inputs: list[tuple[Tensor, ...]] = [read.layer_inputs]  # with a cache, of tokens, too
        self.read_block: Tensor = read.hidden

    def step(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encode the next tokens (B, n); their logits (B, n, V)."""
        return self.model.embedding.logits(self.encode(tokens, lengths))

    def encode(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encode the next tokens (B, n), of which rows may have their first `lengths` (B,): (B, n, D)."""
        require_segment(tokens, self.state, self.model.config)
        self.append(self.model.valid(tokens, lengths, "right"), tokens)
        self.length += tokens.shape[1]
        encoded = self.advance(self.model.embedded(tokens), self.model.spans(self.length, write=False))
        self.past, self.layer_inputs = encoded.seen, self.inputs_with(encoded)
        return encoded.hidden

    def close(self) -> State:
        """Run the write block and return the state for the next segment; no tokens, no segment."""
        if self.length == 0:
            return self.state
        memory, spans = self.model.memory, self.model.spans(self.length)
        layers = self.model.layer_memory(self.state, spans._replace(read=0, tokens=0))
        written = self.advance(memory.write_block(self.state.carried), spans, layers)
        pushed = self.model.cache.push(self.state, cat_layers(self.inputs_with(written)), spans, self.exists)
        leaving = layers.leaving if layers else self.state.carried
        after = State(memory.carry(self.read_block, written.hidden, leaving), *pushed)
        return after if self.exists is None else after.where(self.exists.any(1), self.state)

    def turn(self, rows: Tensor, state: State) -> None:
        """In these rows (B,), forget the segment and open a new one from `state`; the others go on."""
        fresh = OpenSegment(self.model, state)
        exists = self.exists
        if exists is None:
            exists = torch.ones(len(rows), self.length, dtype=torch.bool, device=rows.device)
        exists = exists & ~rows[:, None]
        needed = exists.any(0)  # columns of some row that goes on
        self.exists, self.length = exists[:, needed], int(needed.sum())
        self.state = state.where(rows, self.state)
        self.read_block = torch.where(rows[:, None, None], fresh.read_block, self.read_block)
        wide, deep = rows[:, None, None], rows[:, None, None, None]
        inputs = zip(cat_layers(self.layer_inputs), cat_layers(fresh.layer_inputs), strict=True)
        self.layer_inputs = [tuple(renewed(old, new, wide, needed) for old, new in inputs)]
        self.past = tuple(
            KeyValue(renewed(old.key, new.key, deep, needed), renewed(old.value, new.value, deep, needed))
            for old, new in zip(self.past, fresh.past, strict=True)
        )

    def fork(self) -> OpenSegment:
        """The same segment, to go on in another way; nothing is copied, since nothing is overwritten."""
        other = copy(self)
        other.past = tuple(seen.without_room() for seen in self.past)
        return other

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept for the tokens to come."""
        kept = [*(tensor for piece in self.layer_inputs for tensor in piece), self.read_block]
        return sum(tensor.nbytes for tensor in kept) + sum(seen.nbytes for seen in self.past)

    def append(self, valid: Tensor | None, tokens: Tensor) -> None:
        """Note which rows have the next columns."""
        if valid is None and self.exists is None:
            return
        whole = torch.ones(len(tokens), self.length, dtype=torch.bool, device=tokens.device)
        before = whole if self.exists is None else self.exists
        new = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
        self.exists = torch.cat([before, new], dim=1)

    def advance(self, x: Tensor, spans: Spans, layers: LayerMemory | None = None) -> BackboneOutput:
        """Encode the last rows of `spans` (B, n, D) behind those that were encoded before."""
        new = spans._replace(read=0, tokens=x.shape[1], write=0)
        first = spans.keys - spans.cache - x.shape[1]
        axis = spans.axis(self.state.cached, self.exists, self.model.config.memory.sees_cache, first)
        around = layers or self.model.layer_memory(self.state, new)
        behind: dict[str, Any] = {"past": self.past} if self.past else {"cache": self.state.cache}
        encoded: BackboneOutput = self.model.backbone(x, axis, **behind, around=around)
        return encoded

    def inputs_with(self, encoded: BackboneOutput) -> list[tuple[Tensor, ...]]:
        """The layer inputs of all rows so far and of new ones, where a cache will want them."""
        return [*self.layer_inputs, encoded.layer_inputs] if self.model.cache.size else self.layer_inputs


def cat_layers(pieces: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The inputs of every layer, N × (B, …, D), from pieces of rows."""
    return pieces[0] if len(pieces) == 1 else tuple(map(torch.cat, zip(*pieces, strict=True), repeat(1)))


def renewed(old: Tensor, new: Tensor, rows: Tensor, needed: Tensor) -> Tensor:
    """`old` with the columns in front of its tokens from `new` in these rows, and the needed tokens."""
    axis = old.dim() - 2
    front = new.shape[axis]
    start = torch.where(rows, new, old.narrow(axis, 0, front))
    if old.shape[axis] == front:  # without a cache, no layer inputs of tokens are kept
        return start
    kept = old.narrow(axis, front, old.shape[axis] - front)
    return torch.cat([start, kept.index_select(axis, needed.nonzero().squeeze(1))], dim=axis)
