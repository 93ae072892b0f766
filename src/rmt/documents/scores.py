"""Accuracy and F1 of predicted classes; what is no class at all counts as wrong."""

from __future__ import annotations

from collections.abc import Sequence


def scores(predicted: Sequence[int], true: Sequence[int], classes: int) -> dict[str, float]:
    """`accuracy` and `f1`: of the last class where there are two, else the mean over classes."""
    right = sum(guess == label for guess, label in zip(predicted, true, strict=True))
    each = [f1(predicted, true, label) for label in range(classes)]
    return {"accuracy": right / len(true), "f1": each[1] if classes == 2 else sum(each) / classes}


def f1(predicted: Sequence[int], true: Sequence[int], positive: int) -> float:
    """2 · hits / (predicted + true) of one class; 0 where there is none."""
    pairs = list(zip(predicted, true, strict=True))
    hits = sum(guess == label == positive for guess, label in pairs)
    named = sum((guess == positive) + (label == positive) for guess, label in pairs)
    return 2 * hits / named if named else 0.0
