"""How well a model predicts a whole split of text: every token once, in order, with the state carried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace

import torch

from rmt.core.cache import Cache
from rmt.core.model import SegmentModel
from rmt.infer.reader import reading
from rmt.tasks.lanes import Lanes


def perplexity(
    model: SegmentModel,
    lanes: Lanes,
    length: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float]:
    """Loss, perplexity and bits per token over lanes read in segments of `length` tokens.

    Each lane starts from the initial state; the last segment may be shorter. `tokens` is the exact number
    of predicted tokens: all but the first of each lane and a remainder of less than one per lane.
    """
    count = lanes.segments(length)
    with reading(model):
        state = model.initial_state(lanes.batch)
        device = state.cached.device
        total = torch.zeros((), dtype=torch.float64, device=device)
        for index in range(count):
            tokens, targets = (torch.from_numpy(part).to(device) for part in lanes.segment(index, length))
            output = model(tokens, state, targets=targets)
            state = output.state
            total += output.losses.double().sum()
            progress(index + 1, count)
    loss = float(total) / lanes.predicted
    return {
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_character": loss / math.log(2),
        "tokens": lanes.predicted,
    }


def with_cache(model: SegmentModel, size: int) -> SegmentModel:
    """The same weights with a cache of another size."""
    other = copy(model)
    cache = replace(model.config.cache, size=size)
    other.config, other.cache = replace(model.config, cache=cache), Cache(cache)
    return other
