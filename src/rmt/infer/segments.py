"""A whole segment in every row: encoded, scored and checked as one work, without waiting for the device."""

# B batch · n segments · L tokens of a segment · w tokens encoded at once · D width

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.core.state import State
from rmt.infer.finite import finite
from rmt.infer.work import Results
from rmt.nn.adaptive import clusters_of

FEWEST_SLOTS = 64  # of a tail cluster: rows of a tile of a matrix product


class SegmentKind(NamedTuple):
    """What two segments have to share, beside their shapes, to be one recording."""

    returns: str  # nothing, log_probs or hidden
    scores: bool  # whether tokens are predicted
    capacities: tuple[int, ...]  # of an adaptive softmax


class SegmentSums(NamedTuple):
    """What goes on from segment to segment beside the state, on the device."""

    last: Tensor  # (B, D) hidden state of the last token: what predicts the next
    begun: Tensor  # (B,) bool, whether there is one; the very first token of a row is not predicted
    loss: Tensor  # (B,) sum of losses, float64
    flags: Tensor  # (3,) bool, whether everything was a number


def whole_segment(model: Any, kind: SegmentKind, state: State, tokens: Tensor, *sums: Tensor) -> Results:
    """The state behind a segment (B, L), what is returned of it, (B, L, …), and the sums."""
    before = SegmentSums(*sums)
    encoded = model.encode(tokens, state)
    hidden, after = encoded.hidden.to(before.last.dtype), encoded.state.with_dtypes_of(state)
    losses = counted = None
    if kind.scores:
        losses = losses_of(model, hidden, before.last, tokens, kind.capacities)
        counted = torch.cat([before.begun[:, None], torch.ones_like(tokens[:, 1:], dtype=torch.bool)], dim=1)
    returned = {"nothing": hidden[:, :0, 0], "hidden": hidden, "log_probs": log_probs(losses, counted)}
    known = summable(losses, counted)
    after_sums = SegmentSums(
        hidden[:, -1].clone(),
        torch.ones_like(before.begun),
        before.loss if known is None else before.loss + known.to(before.loss.dtype).sum(1),
        before.flags & finite(tokens.device, hidden, after, known),
    )
    values = returned[kind.returns]
    assert values is not None, "log-probabilities are asked for where tokens are scored"
    return after, (values, *after_sums)


def losses_of(
    model: Any, hidden: Tensor, last: Tensor, tokens: Tensor, capacities: tuple[int, ...] = ()
) -> Tensor:
    """Losses (B, w) of tokens by the hidden states (B, w, D) before them, the first by the `last` (B, D)."""
    before = torch.cat([last[:, None], hidden[:, :-1]], dim=1)
    options = {"capacities": capacities} if capacities else {}
    losses: Tensor = model.embedding.losses(before, tokens, **options)
    return losses


def log_probs(losses: Tensor | None, counted: Tensor | None) -> Tensor | None:
    """Log-probabilities (B, w), NaN where a token was not predicted."""
    return None if losses is None or counted is None else (-losses).masked_fill(~counted, math.nan)


def summable(losses: Tensor | None, counted: Tensor | None) -> Tensor | None:
    """Losses (B, w), zero where a token was not predicted."""
    return None if losses is None or counted is None else losses.masked_fill(~counted, 0.0)


def capacities_of(tokens: Tensor, cutoffs: Sequence[int], former: tuple[int, ...]) -> tuple[int, ...]:
    """Slots of the tails of an adaptive softmax that suffice for each of the segments (n, B, L), on the CPU.

    Powers of two, and never fewer than the `former` ones: a stream soon has no others, and one recording.
    """
    cluster_of = clusters_of(tokens, tuple(cutoffs)).flatten(1)
    needed = [int((cluster_of == tail).sum(1).max()) for tail in range(1, len(cutoffs) + 1)]
    most = cluster_of.shape[1]
    enough = (max(FEWEST_SLOTS, 1 << max(count - 1, 0).bit_length()) for count in needed)
    return tuple(
        max(min(slots, most), before)
        for slots, before in zip(enough, former or (0,) * len(cutoffs), strict=True)
    )
