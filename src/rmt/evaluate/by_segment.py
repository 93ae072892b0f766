"""Strict accuracy by segment: where in an answer a model loses what it was told."""

from __future__ import annotations

import torch

from rmt.core.model import SegmentModel
from rmt.evaluate.evaluate import batches_of
from rmt.evaluate.generate import generate
from rmt.infer.work import inference
from rmt.tasks.task import Task

ROWS = 500  # sequences at a time


def accuracy_by_segment(
    model: SegmentModel, task: Task, length: int, samples: int, precision: str = "32-true"
) -> dict[int, float]:
    """The accuracy of the answer's characters in each segment that has some, by the segment's number."""
    data = task.split("test", min(samples, task.sizes["test"]))
    device = next(model.parameters()).device
    right = counted = torch.zeros(data.tokens.shape[1], dtype=torch.long)
    with inference(model, precision):
        for rows in batches_of(data, ROWS):
            predicted = generate(model, rows.tokens.to(device), rows.loss_mask.to(device), length).cpu()
            right = right + ((predicted == rows.targets) & rows.answer).sum(0)
            counted = counted + rows.answer.sum(0)
    sums = zip(right.split(length), counted.split(length), strict=True)
    return {index: int(hits.sum()) / int(all_.sum()) for index, (hits, all_) in enumerate(sums) if all_.any()}
