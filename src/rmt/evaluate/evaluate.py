"""The metrics of a task on a whole split: strict and free-running, teacher-forced, and the original's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.model import SegmentModel
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.evaluate.generate import (
    EncodedSource,
    generate_both_at_once,
    generate_both_in_turn,
    generate_on,
    inputs_from_model,
)
from rmt.gpu.graphs import sent
from rmt.infer.work import Results, inference, worker_of
from rmt.nn.widest import widest
from rmt.tasks.task import Batch, Task

# B batch · T tokens of the whole sequence · L tokens of a segment


class Sums(NamedTuple):
    """Right answers and loss over a batch; every field a count or a sum, () on the device."""

    characters: Tensor
    sequences: Tensor
    right: Tensor
    right_sequences: Tensor
    forced_right: Tensor
    original_right: Tensor
    original_characters: Tensor
    losses: Tensor
    loss: Tensor


class Forced(NamedTuple):
    """What a model predicts when every input is the true one."""

    predictions: Tensor  # (B, T)
    losses: Tensor  # (B, T) float64
    state: State  # behind the segments that are the same however the rest is generated


def evaluate(
    model: SegmentModel,
    task: Task,
    length: int,
    *,
    split: str = "test",
    samples: int | None = None,
    batch: int = 500,
    thorough: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
    precision: str = "32-true",
) -> dict[str, float]:
    """Metrics over the first `samples` examples of a split (all by default), in segments of `length` tokens.

    `accuracy` and `sequence_accuracy` are strict: everything under the loss is generated, nothing is given
    away at segment borders. Without `thorough`, `original_accuracy` (a second generation) is left out. With
    bf16-mixed as `precision`, products are in bfloat16; else all is in the model's own format.
    """
    data = task.split(split, samples)
    total, done, sums = len(data.tokens), 0, None
    progress(done, total)
    with inference(model, precision):
        for rows in batches_of(data, batch):
            part = batch_sums(model, task, rows, length, thorough)
            sums = part if sums is None else Sums(*map(torch.add, sums, part))
            done += len(rows.tokens)
            progress(done, total)
    assert sums is not None, "a split has an example"
    columns = torch.stack([column.to(widest(column.device)) for column in sums]).tolist()  # waits, once
    totals = dict(zip(Sums._fields, columns, strict=True))
    if not totals["characters"]:
        raise ConfigError(
            f"the {total} examples of split {split!r} of task {task.name!r} have no answer to count"
        )
    metrics = {
        "accuracy": totals["right"] / totals["characters"],
        "sequence_accuracy": totals["right_sequences"] / totals["sequences"],
        "teacher_forced_accuracy": totals["forced_right"] / totals["characters"],
        "loss": totals["loss"] / totals["losses"],
        "samples": total,
    }
    if thorough:
        metrics["original_accuracy"] = totals["original_right"] / totals["original_characters"]
    return metrics


def batches_of(data: Batch, size: int) -> Iterator[Batch]:
    """The split in batches."""
    for parts in zip(*(column.split(size) for column in data), strict=True):
        yield Batch(*parts)


def batch_sums(model: SegmentModel, task: Task, batch: Batch, length: int, thorough: bool) -> Sums:
    """All sums of one batch, which is on the CPU.

    Segments before the first token that the model makes are encoded once.
    """
    from_model = inputs_from_model(batch.loss_mask)
    first = first_generated_segment(from_model, length)
    generates_twice = thorough and generates_in_original(task, batch, length)
    batch = Batch(*(sent(column, next(model.parameters()).device) for column in batch))
    forced = teacher_forced(model, batch, length, first)
    source = EncodedSource(forced.predictions[:, : first * length], forced.state)
    original = forced.predictions
    if generates_twice:
        on_cpu = batch.tokens.device.type == "cpu"
        generate_both = generate_both_in_turn if on_cpu else generate_both_at_once
        strict, original = generate_both(model, batch.tokens, from_model, length, source)
    else:
        strict = generate_on(model, batch.tokens, from_model, length, source)
    predictions = torch.stack([strict, forced.predictions, original])
    right, forced_right, original_right = (predictions == batch.targets).unbind(0)
    counted, window = batch.answer, batch.answer
    answers = counted.any(1)
    if thorough:
        original_right, window = original_metric(task, batch, original_right)
    return Sums(
        characters=counted.sum(),
        sequences=answers.sum(),
        right=(right & counted).sum(),
        right_sequences=((right | ~counted).all(1) & answers).sum(),
        forced_right=(forced_right & counted).sum(),
        original_right=original_right.sum(),
        original_characters=window.sum(),
        losses=batch.loss_mask.sum(),
        loss=(forced.losses * batch.loss_mask).sum(),
    )


def first_generated_segment(from_model: Tensor, length: int) -> int:
    """The first segment with an input (B, T) that the model makes, or how many segments there are."""
    columns = from_model.any(0).nonzero().flatten().tolist()
    return int(columns[0]) // length if columns else math.ceil(from_model.shape[1] / length)


@torch.no_grad()
def teacher_forced(model: SegmentModel, batch: Batch, length: int, first: int) -> Forced:
    """Predictions and losses when every input is the true one, and the state before segment `first`."""
    worker, state = worker_of(model, force_segment), model.initial_state(len(batch.tokens))
    results, states = [], [state]
    for index, segment in enumerate(torch.stack(batch[:2]).split(length, dim=2)):
        state, forced = worker((), state, segment.contiguous())
        results.append(forced)
        if index < first:
            states = [state]
    predictions, losses = (torch.cat(column, dim=1) for column in zip(*results, strict=True))
    return Forced(predictions, losses, states[0])


def force_segment(model: SegmentModel, _: tuple[()], state: State, segment: Tensor) -> Results:
    """The state behind a segment, its tokens and targets (2, B, L), their predictions and losses (B, L)."""
    tokens, targets = segment.unbind(0)
    output = model(tokens, state)
    losses = F.cross_entropy(output.logits.mT.to(widest(tokens.device)), targets, reduction="none")
    return output.state.with_dtypes_of(state), (output.logits.argmax(-1), losses)


def generates_in_original(task: Task, batch: Batch, length: int) -> bool:
    """Whether the original code's metric generates: it does not where an answer is shorter than a segment.

    Tasks that count whole answers always do.
    """
    answer = math.ceil(float(batch.loss_mask.sum(1).double().mean()))
    return answer >= length or task.original_exact


def original_metric(task: Task, batch: Batch, right: Tensor) -> tuple[Tensor, Tensor]:
    """What the original code counts as right, and out of what.

    It generates with the true first token in every segment, or not at all; some tasks count whole answers.
    """
    window = task.original_answer(batch)
    if not task.original_exact:
        return right & window, window
    return (right | ~window).all(1), torch.ones(len(window), dtype=torch.bool, device=right.device)
