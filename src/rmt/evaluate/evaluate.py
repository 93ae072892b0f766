"""The metrics of a task on a whole split: strict and free-running, teacher-forced, and the original's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.model import SegmentModel
from rmt.core.unroll import unroll
from rmt.errors import ConfigError
from rmt.evaluate.generate import generate
from rmt.infer.rows import inference
from rmt.tasks.task import Batch, Task


class Sums(NamedTuple):
    """Right answers and loss over a batch; every field a count or a sum."""

    characters: int
    sequences: int
    right: int
    right_sequences: int
    forced_right: int
    original_right: int
    original_characters: int
    losses: int
    loss: float


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
    total, sums = len(data.tokens), []
    with inference(model, precision):
        for rows in portions(data, batch, next(model.parameters()).device):
            sums.append(measure(model, task, rows, length, thorough))
            progress(sum(part.sequences for part in sums), total)
    whole = Sums(*(sum(column) for column in zip(*sums, strict=True)))
    if not whole.characters:
        raise ConfigError(
            f"the {total} examples of split {split!r} of task {task.name!r} have no answer to count"
        )
    metrics = {
        "accuracy": whole.right / whole.characters,
        "sequence_accuracy": whole.right_sequences / whole.sequences,
        "teacher_forced_accuracy": whole.forced_right / whole.characters,
        "loss": whole.loss / whole.losses,
        "samples": total,
    }
    if thorough:
        metrics["original_accuracy"] = whole.original_right / whole.original_characters
    return metrics


def portions(data: Batch, size: int, device: torch.device) -> Iterator[Batch]:
    """The split in batches on the model's device."""
    for parts in zip(*(column.split(size) for column in data), strict=True):
        yield Batch(*(part.to(device) for part in parts))


def measure(model: SegmentModel, task: Task, batch: Batch, length: int, thorough: bool) -> Sums:
    """All sums of one batch."""
    right = generate(model, batch.tokens, batch.loss_mask, length) == batch.targets
    forced, losses = teacher_forced(model, batch, length)
    original = forced & batch.answer
    window = batch.answer
    if thorough:
        original, window = original_metric(model, task, batch, length, forced)
    return Sums(
        characters=int(batch.answer.sum()),
        sequences=len(batch.tokens),
        right=int((right & batch.answer).sum()),
        right_sequences=int((right | ~batch.answer).all(1).sum()),
        forced_right=int((forced & batch.answer).sum()),
        original_right=int(original.sum()),
        original_characters=int(window.sum()),
        losses=int(batch.loss_mask.sum()),
        loss=float((losses * batch.loss_mask).sum()),
    )


@torch.no_grad()
def teacher_forced(model: SegmentModel, batch: Batch, length: int) -> tuple[Tensor, Tensor]:
    """Which predictions are right (B, T) and their losses (B, T) when every input is the true one."""
    outputs = unroll(model, batch.tokens.split(length, dim=1), model.initial_state(len(batch.tokens)))
    right, losses = [], []
    for output, targets in zip(outputs, batch.targets.split(length, dim=1), strict=True):
        logits = output.logits
        right.append(logits.argmax(-1) == targets)
        losses.append(F.cross_entropy(logits.mT.double(), targets, reduction="none"))
    return torch.cat(right, dim=1), torch.cat(losses, dim=1)


def original_metric(
    model: SegmentModel, task: Task, batch: Batch, length: int, forced: Tensor
) -> tuple[Tensor, Tensor]:
    """What the original code counts as right, and out of what.

    It generates with the true first token in every segment. Some tasks count whole answers; for the others,
    it does not generate at all where the answer is shorter than a segment.
    """
    window = task.original_answer(batch)
    answer = math.ceil(float(batch.loss_mask.sum(1).double().mean()))
    right = forced
    if answer >= length or task.original_exact:
        right = generate(model, batch.tokens, batch.loss_mask, length, true_borders=True) == batch.targets
    if not task.original_exact:
        return right & window, window
    return (right | ~window).all(1), torch.ones(len(window), dtype=torch.bool)
