"""Rows of text, each in a segment of its own: whole segments are encoded at once, others piece by piece."""

# B batch · n tokens of a piece · w tokens encoded at once · T ids of the open segment · L tokens of a segment
# D width

from __future__ import annotations

import math
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.config import positive
from rmt.gpu.graphs import sent
from rmt.infer.columns import appended, cut, last_of, put
from rmt.infer.finite import finite, flags, require_flags
from rmt.infer.saved import SessionContents
from rmt.infer.segments import (
    SegmentKind,
    SegmentSums,
    capacities_of,
    log_probs,
    losses_of,
    summable,
    whole_segment,
)
from rmt.infer.sources import TokenRows
from rmt.infer.work import RecordedWork, inference, worker_of


class NextTokens(NamedTuple):
    """Tokens that are encoded together."""

    ids: Tensor  # (B, w) on the CPU
    take: Tensor  # (B,) on the CPU: how many of them a row has; these are its first ones
    tokens: Tensor  # (B, w)
    lengths: Tensor | None  # (B,) on the device, or none where every row has all tokens, which is faster
    exists: Tensor  # (B, w) bool, on the CPU: which of them a row has


class OpenRows:
    """The state before the open segments, these segments (token ids, keys and values), and sums over all.

    Counts are on the CPU, so that deciding what to encode next never waits for the device. Whether all was a
    number is noted on the device: who hands anything out has to `require_finite` before.
    """

    def __init__(self, model: Any, contents: SessionContents, segment_length: int, precision: str):
        positive("segment_length", segment_length)
        self.model, self.segment_length, self.precision = model, segment_length, precision
        self.state = contents.state
        self.open, self.length = contents.open, contents.length
        self.last, self.seen = contents.last, contents.seen
        self.scored, self.loss = contents.scored, contents.loss
        self.current = torch.ones_like(self.length, dtype=torch.bool)  # rows whose segment `self.segment` has
        self.capacities: tuple[int, ...] = ()  # of an adaptive softmax that scores whole segments
        self.flags = flags(self.device)
        with inference(model, precision):
            self.segment = model.open(self.state)
            if self.open.shape[1]:
                restored = self.next_tokens(self.open, self.length)
                self.segment.encode(restored.tokens, restored.lengths)

    @property
    def device(self) -> torch.device:
        return self.state.cached.device

    @property
    def contents(self) -> SessionContents:
        """All that is saved: keys and values can be computed from it."""
        return SessionContents(
            self.state, self.open, self.length, self.last, self.seen, self.scored, self.loss
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the state, the ids, the sums, and what is kept for the tokens to come."""
        kept = (self.open, self.length, self.last, self.seen, self.scored, self.loss, self.flags)
        return self.state.nbytes + self.segment.nbytes + sum(tensor.nbytes for tensor in kept)

    def fork(self) -> OpenRows:
        """Rows that go on by themselves; nothing is copied, since nothing is overwritten."""
        other = copy(self)
        other.segment = self.segment.fork()
        return other

    def require_finite(self) -> None:
        """Refuse what was not a number since these rows began; waits for the device."""
        require_flags(self.flags)

    def advance(self, piece: TokenRows, returns: str, scores: bool) -> Tensor:
        """Encode a piece, its ids on the CPU; what was asked for (B, n, …), NaN where a row has no token."""
        shape = {"nothing": (0,), "log_probs": (), "hidden": self.last.shape[1:]}[returns]
        result = self.last.new_full((*piece.tokens.shape, *shape), math.nan)
        done = torch.zeros_like(piece.lengths)
        with inference(self.model, self.precision):
            while bool((done < piece.lengths).any()):
                take = self.next(piece.lengths - done)
                ids = cut(piece.tokens, done, int(take.max()))
                encode = self.encode_segments if self.is_whole(take).all() else self.encode_tokens
                values = encode(ids, take, returns, scores)
                if returns != "nothing":
                    put(result, values, take, done)
                done, self.seen = done + take, self.seen + take
        return result

    def next(self, left: Tensor) -> Tensor:
        """How many tokens each row encodes next if it has `left` (B,): segments at their start go whole."""
        whole = (self.length == 0) & (left >= self.segment_length)
        if bool(whole.all()):  # as many as every row has
            return torch.full_like(left, int(left.min()) // self.segment_length * self.segment_length)
        if bool(whole.any()):
            return whole * self.segment_length
        return torch.minimum(left, self.segment_length - self.length)

    def is_whole(self, take: Tensor) -> Tensor:
        """Which rows take whole segments, (B,)."""
        return (self.length == 0) & (take >= self.segment_length)

    def encode_segments(self, ids: Tensor, take: Tensor, returns: str, scores: bool) -> Tensor:
        """Encode whole segments of all rows (B, n · L) one after the other, without waiting for the device.

        Returns what was asked for, (B, n · L, …).
        """
        parts = ids.unflatten(1, (-1, self.segment_length)).movedim(1, 0).contiguous()  # (n, B, L)
        worker = worker_of(self.model, whole_segment, self.precision)
        if scores and isinstance(worker, RecordedWork) and self.model.config.cutoffs:
            self.capacities = capacities_of(parts, self.model.config.cutoffs, self.capacities)
        kind = SegmentKind(returns, scores, self.capacities)
        sums = SegmentSums(self.last, sent(self.seen > 0, self.device), self.loss, self.flags)
        values = []
        for tokens in sent(parts, self.device).unbind(0):
            self.state, (value, *after) = worker(kind, self.state, tokens, *sums)
            sums = SegmentSums(*after)
            if returns != "nothing":
                values.append(value)
        self.last, self.loss, self.flags = sums.last, sums.loss, sums.flags
        self.current = torch.zeros_like(self.current)
        if scores:
            self.scored = self.scored + take - (self.seen == 0).long()
        return torch.cat(values, dim=1) if values else self.last[:, :0]

    def encode_tokens(self, ids: Tensor, take: Tensor, returns: str, scores: bool) -> Tensor:
        """Encode the next tokens (B, w), of which a row has the first `take` (B,), within a segment."""
        following = self.next_tokens(ids, take)
        hidden = (self.encode_whole if self.is_whole(take).any() else self.encode_on)(following)
        hidden = hidden.to(self.last.dtype)
        existing = hidden
        if following.lengths is not None:
            existing = hidden.masked_fill(~sent(following.exists, self.device)[..., None], 0.0)
        losses = counted = None
        if scores:
            counts = following.exists & (self.seen[:, None] + following.exists.cumsum(1) > 1)
            losses = losses_of(self.model, hidden, self.last, following.tokens)
            counted = sent(counts, self.device)
            self.scored = self.scored + counts.sum(1)
        known = summable(losses, counted)
        if known is not None:
            self.loss = self.loss + known.to(self.loss.dtype).sum(1)
        self.flags = self.flags & finite(self.device, existing, None, known)
        self.last = last_of(hidden, sent(take, self.device), self.last)
        returned = {"nothing": hidden[:, :0], "hidden": hidden, "log_probs": log_probs(losses, counted)}
        values = returned[returns]
        assert values is not None, "log-probabilities are asked for where tokens are scored"
        return values

    def next_tokens(self, ids: Tensor, take: Tensor) -> NextTokens:
        """Tokens on the device, and which of them exist."""
        exists = torch.arange(ids.shape[1]) < take[:, None]
        lengths = None if bool(exists.all()) else sent(take, self.device)
        return NextTokens(ids, take, sent(ids, self.device), lengths, exists)

    def encode_whole(self, following: NextTokens) -> Tensor:
        """A whole segment in each row that takes one, and nothing in the others."""
        encoded = self.model.encode(following.tokens, self.state, following.lengths)
        self.state = encoded.state.with_dtypes_of(self.state)
        self.current = self.current & (following.take == 0)
        self.flags = self.flags & finite(self.device, None, self.state, None)
        hidden: Tensor = encoded.hidden
        return hidden

    def encode_on(self, following: NextTokens) -> Tensor:
        """The next tokens of each row's segment; segments that are full then are closed."""
        self.segment = self.opened(following.take)
        hidden: Tensor = self.segment.encode(following.tokens, following.lengths)
        self.open = appended(self.open, self.length, following.ids, following.take)
        self.length = self.length + following.take
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
            segment.turn(sent(late, self.device), self.state)
            self.current = self.current | late
        return segment

    def close(self, rows: Tensor) -> None:
        """Run the write block of these rows (B,); their next token opens a new segment."""
        rows = rows & (self.length > 0)
        if not bool(rows.any()):
            return
        with inference(self.model, self.precision):
            state = self.segment.close().where(sent(rows, self.device), self.state)
        self.state = state.with_dtypes_of(self.state)
        self.flags = self.flags & finite(self.device, None, self.state, None)
        self.length, self.current = self.length * ~rows, self.current & ~rows
        self.open = self.open[:, : int(self.length.max())]
