"""How well a model predicts a whole split of text: every token once, in order, with the state carried on."""

# B lanes · L tokens of a segment · S segments · K tail clusters

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rmt.core.cache import Cache
from rmt.core.model import SegmentModel
from rmt.core.state import State
from rmt.infer.work import RecordedWork, Results, inference
from rmt.nn.widest import widest
from rmt.text.lanes import Lanes

CROWDED = 4  # times the median: from so many targets in a tail on, a segment has slots of its own
SLOTS = 64  # slots of a tail are a multiple of this: rows of a tile of a matrix product


def perplexity(
    model: SegmentModel,
    lanes: Lanes,
    length: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    precision: str = "32-true",
) -> dict[str, float]:
    """Loss, perplexity and bits per token over lanes read in segments of `length` tokens.

    Each lane starts from the initial state; the last segment may be shorter. `tokens` is the exact number
    of predicted tokens: all but the first of each lane and a remainder of less than one per lane. With
    bf16-mixed as `precision`, products are in bfloat16; else all is in the model's own format. On a GPU a
    segment is recorded once and replayed, and nothing waits for it before the end.
    """
    count, device = lanes.segments(length), next(model.parameters()).device
    progress(0, count)
    with inference(model, precision):
        segment = RecordedWork(model, score_segment, precision)
        capacities = segment_capacities(lanes, length, model.config.cutoffs if is_static(segment) else ())
        state = model.initial_state(lanes.batch)
        total = torch.zeros((), dtype=widest(device), device=device)
        for index in range(count):
            following = torch.from_numpy(np.stack(lanes.segment(index, length)))
            state, (total,) = segment(capacities[index], state, following, total)
            progress(index + 1, count)
    loss = float(total) / lanes.predicted
    return {
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_character": loss / math.log(2),
        "tokens": lanes.predicted,
    }


def score_segment(
    model: SegmentModel, capacities: tuple[int, ...], state: State, segment: Tensor, total: Tensor
) -> Results:
    """The state behind a segment, its tokens and targets (2, B, L), and the losses so far with its own."""
    tokens, targets = segment.unbind(0)
    output = model(tokens, state, targets=targets, capacities=capacities)
    assert output.losses is not None
    return output.state.with_dtypes_of(state), (total + output.losses.to(total.dtype).sum(),)


def is_static(segment: RecordedWork) -> bool:
    """Whether no shape may depend on the targets, so that a segment can be recorded."""
    return segment.recorder.enabled


def segment_capacities(lanes: Lanes, length: int, cutoffs: Sequence[int]) -> list[tuple[int, ...]]:
    """The slots of the tails of an adaptive softmax for each segment, as many as its targets need or more.

    All segments have the same, so that they are one recording; where a few are far more crowded than the
    others, these have the most that any of them needs.
    """
    if not cutoffs:
        return [()] * lanes.segments(length)
    targets = lanes.tail_targets(length, cutoffs)  # (K, S)
    positions = lanes.batch * length
    most = rounded(targets.max(axis=1), positions)
    usual = np.minimum(most, rounded(CROWDED * np.median(targets, axis=1), positions))
    fits = (targets <= usual[:, None]).all(axis=0)
    return [tuple((usual if suffices else most).tolist()) for suffices in fits.tolist()]


def rounded(slots: np.ndarray, positions: int) -> np.ndarray:
    """Slots (K,) as whole tiles, at least one, but no more than there are positions in a segment."""
    tiles = np.maximum(np.ceil(slots / SLOTS), 1).astype(np.int64)
    return np.minimum(tiles * SLOTS, positions)


def with_cache(model: SegmentModel, size: int) -> SegmentModel:
    """The same weights with a cache of another size."""
    other = copy(model)
    cache = replace(model.config.cache, size=size, sink=model.config.cache.sink if size else 0)
    other.config, other.cache = replace(model.config, cache=cache), Cache(cache)
    return other
