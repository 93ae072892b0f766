"""What a model comes to that has learned nothing but how often each token is asked for."""

from __future__ import annotations

import math

import numpy as np

from rmt.tasks.task import Task
from rmt.text.task import Text

SAMPLES = 1000  # test sequences whose answers are counted


def constant_answer(task: Task) -> float | None:
    """The constant answer by the task's metric on the test split; none where it is not known."""
    if isinstance(task, Text):
        bits = cross_entropy(task.target_counts() + 1, task.corpus.tokens("test"))
        return bits if task.metric == "bits_per_character" else 2**bits
    if task.metric != "accuracy":
        return None
    test = task.split("test", min(SAMPLES, task.sizes["test"]))
    counts = np.bincount(test.targets[test.answer].numpy())
    return float(counts.max() / counts.sum())


def cross_entropy(counts: np.ndarray, tokens: np.ndarray) -> float:
    """Bits per token of a text, if each token is as likely as it was often."""
    asked = np.bincount(tokens, minlength=len(counts))
    return float(-(asked @ np.log(counts / counts.sum())) / asked.sum() / math.log(2))
