"""Free-running generation: a model's own outputs are its next inputs, through every segment border."""

# B batch · T tokens of the whole sequence · L tokens of a segment

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from rmt.core.model import SegmentModel


@torch.no_grad()
def generate(
    model: SegmentModel, tokens: Tensor, generated: Tensor, length: int, true_borders: bool = False
) -> Tensor:
    """The greedy predictions (B, T) for every position, in segments of `length` tokens.

    Where `generated` (B, T) is true, the prediction replaces the next token of the input; nothing after it
    is given away. With `true_borders` the first token of each segment is the true one, as the original
    code's metric has it.
    """
    inputs, predictions = tokens.clone(), torch.empty_like(tokens)
    model_made = torch.nn.functional.pad(generated[:, :-1], (1, 0))  # (B, T) which inputs come from the model
    if true_borders:
        model_made = model_made & (torch.arange(tokens.shape[1], device=tokens.device) % length != 0)
    waits = model_made.any(0).tolist()
    state = model.initial_state(tokens.shape[0])
    for start in range(0, tokens.shape[1], length):
        segment = model.open(state)
        for first, last in pieces(waits, start, min(start + length, tokens.shape[1])):
            if waits[first]:
                inputs[:, first] = torch.where(
                    model_made[:, first], predictions[:, first - 1], inputs[:, first]
                )
            predictions[:, first:last] = segment.step(inputs[:, first:last]).argmax(-1)
        state = segment.close()
    return predictions


def pieces(waits: list[bool], start: int, stop: int) -> list[tuple[int, int]]:
    """Cut start … stop before every position that has to wait for the prediction before it."""
    cuts = [start, *(index for index in range(start + 1, stop) if waits[index]), stop]
    return list(pairwise(cuts))
