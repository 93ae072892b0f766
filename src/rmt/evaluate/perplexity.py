"""How well a model predicts a whole split of text: every token once, in order, with the state carried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from rmt.core.cache import Cache
from rmt.core.model import SegmentModel
from rmt.core.recording import Recorder, sent
from rmt.core.serving import served
from rmt.infer.rows import inference
from rmt.precision import MIXED
from rmt.text.lanes import Lanes


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
    segment is recorded once and replayed.
    """
    count = lanes.segments(length)
    device = next(model.parameters()).device

    def score_segment(_: None, tokens: Tensor, targets: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        output = model(tokens, form.unflatten(state), targets=targets)
        assert output.losses is not None
        return output.losses.double().sum(), *output.state.flat()

    with ExitStack() as open_parts:
        open_parts.enter_context(inference(model, precision))
        half = precision == MIXED and device.type == "cuda"
        open_parts.enter_context(served(model, half, learns=False) or nullcontext())
        form = model.initial_state(lanes.batch)
        carried = [tensor.contiguous() for tensor in form.flat()]
        # an adaptive softmax looks at how many rare words there are
        segment = Recorder(score_segment, device.type == "cuda" and not model.config.cutoffs)
        total = torch.zeros((), dtype=torch.float64, device=device)
        for index in range(count):
            tokens, targets = (sent(torch.from_numpy(part), device) for part in lanes.segment(index, length))
            lost, *carried = segment(None, tokens, targets, *carried)
            total += lost
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
