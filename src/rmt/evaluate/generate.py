"""Free-running generation: a model's own outputs are its next inputs, through every segment border."""

# B batch · T tokens of the whole sequence · L tokens of a segment

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.core.state import State
from rmt.gpu.graphs import sent
from rmt.infer.work import Results, worker_of

FROM_MODEL = -1  # stands for a token that the model predicts


class EncodedSource(NamedTuple):
    """The first tokens of sequences, encoded as they are, from where the rest is generated in any way."""

    predictions: Tensor  # (B, n) of these tokens
    state: State  # behind them

    def repeated(self, times: int) -> EncodedSource:
        """The same rows several times, one behind the other."""
        state = self.state.map(lambda tensor: torch.cat([tensor] * times))
        return EncodedSource(self.predictions.repeat(times, 1), state)

    def chosen(self, rows: Tensor) -> EncodedSource:
        """The rows (B,) where `rows` is true."""
        return EncodedSource(self.predictions[rows], self.state.map(lambda tensor: tensor[rows]))


@torch.no_grad()
def generate(
    model: SegmentModel, tokens: Tensor, generated: Tensor, length: int, true_borders: bool = False
) -> Tensor:
    """The greedy predictions (B, T) for every position, in segments of `length` tokens.

    Where `generated` (B, T) is true, the prediction replaces the next token of the input; nothing after it
    is given away. With `true_borders` the first token of each segment is the true one, as the original
    code's metric has it.
    """
    nothing = EncodedSource(tokens[:, :0], model.initial_state(len(tokens)))
    from_model = inputs_from_model(generated.cpu())
    if true_borders:
        from_model = from_model & ~starts_segment(from_model, length)
    return generate_on(model, tokens, from_model, length, nothing)


def inputs_from_model(generated: Tensor) -> Tensor:
    """Which inputs (B, T) come from the model, if the predictions `generated` (B, T) do."""
    return torch.nn.functional.pad(generated[:, :-1], (1, 0))


def starts_segment(tokens: Tensor, length: int) -> Tensor:
    """Which of the columns of (B, T) are the first of a segment, (T,)."""
    return torch.arange(tokens.shape[1], device=tokens.device) % length == 0


def generate_both_at_once(
    model: SegmentModel, tokens: Tensor, from_model: Tensor, length: int, before: EncodedSource
) -> tuple[Tensor, Tensor]:
    """All predictions (B, T), strict ones and those with the true first token in each segment, in one batch.

    For a GPU, where time goes into the number of steps.
    """
    masks = torch.cat([from_model, from_model & ~starts_segment(from_model, length)])
    both = generate_on(model, tokens.repeat(2, 1), masks, length, before.repeated(2))
    return both[: len(tokens)], both[len(tokens) :]


def generate_both_in_turn(
    model: SegmentModel, tokens: Tensor, from_model: Tensor, length: int, before: EncodedSource
) -> tuple[Tensor, Tensor]:
    """The same on a CPU: only rows with a wrong strict prediction before a border are generated again.

    In all others the inputs, and so the predictions, are the same.
    """
    borders = starts_segment(from_model, length)
    strict = generate_on(model, tokens, from_model, length, before)
    is_wrong = strict[:, :-1] != tokens[:, 1:]
    rows = (is_wrong & (from_model & borders)[:, 1:]).any(1)
    if not rows.any():
        return strict, strict
    masks = from_model[rows] & ~borders
    again = generate_on(model, tokens[rows], masks, length, before.chosen(rows))
    return strict, strict.masked_scatter(rows[:, None], again)


def generate_on(
    model: SegmentModel, tokens: Tensor, from_model: Tensor, length: int, before: EncodedSource
) -> Tensor:
    """All predictions (B, T), those of the first segments being known; `from_model` is on the CPU."""
    waits = from_model.any(0).tolist()
    masked = tokens.masked_fill(sent(from_model, tokens.device), FROM_MODEL)
    worker, state = worker_of(model, predict_segment), before.state
    predictions, known = [before.predictions], before.predictions.shape[1]
    previous = before.predictions[:, -1] if known else torch.zeros_like(tokens[:, 0])
    for start in range(known, tokens.shape[1], length):
        stop = min(start + length, tokens.shape[1])
        cuts = tuple(first - start for first, _ in pieces(waits, start, stop))
        state, (predicted,) = worker(cuts, state, masked[:, start:stop], previous)
        predictions.append(predicted)
        previous = predicted[:, -1]
    return torch.cat(predictions, dim=1)


def predict_segment(
    model: SegmentModel, cuts: tuple[int, ...], state: State, masked: Tensor, previous: Tensor
) -> Results:
    """The state behind a segment (B, L) and its predictions; pieces begin at `cuts`.

    The first token of a piece may be the prediction before it, the `previous` one (B,) for the first piece.
    """
    if len(cuts) == 1:
        output = model(filled(masked, previous), state)
        return output.state.with_dtypes_of(state), (output.logits.argmax(-1),)
    segment, predictions = model.open(state, room=masked.shape[1]), []
    for first, last in pairwise((*cuts, masked.shape[1])):
        predictions.append(segment.step(filled(masked[:, first:last], previous)).argmax(-1))
        previous = predictions[-1][:, -1]
    return segment.close().with_dtypes_of(state), (torch.cat(predictions, dim=1),)


def filled(masked: Tensor, previous: Tensor) -> Tensor:
    """A piece (B, n) with the `previous` prediction (B,) in rows that begin with what the model predicts."""
    start = torch.where(masked[:, 0] == FROM_MODEL, previous, masked[:, 0])
    return torch.cat([start[:, None], masked[:, 1:]], dim=1)


def pieces(waits: list[bool], start: int, stop: int) -> list[tuple[int, int]]:
    """Cut start … stop before every position that has to wait for the prediction before it."""
    cuts = [start, *(index for index in range(start + 1, stop) if waits[index]), stop]
    return list(pairwise(cuts))
