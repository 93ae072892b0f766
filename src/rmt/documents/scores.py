"""Scores of answers: accuracy and F1 of classes, errors of numbers, overlaps of spans, named entities."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Average = Literal["macro", "micro", "weighted"]
Span = tuple[int, int]  # first and last token
Entity = tuple[int, int, str]  # first token, the one behind the last, type


class Scoring(NamedTuple):
    """What decides which model is best, and whose F1 it is."""

    metric: str
    average: Average = "macro"
    positive: int | None = None  # the class whose F1 it is, instead of an average


class Counts(NamedTuple):
    """How often a class was answered rightly, answered at all, and true."""

    hits: int
    answered: int
    true: int

    @property
    def f1(self) -> float:
        """2 · hits / (answered + true); 0 where there is neither."""
        return 2 * self.hits / (self.answered + self.true) if self.answered + self.true else 0.0


def accuracy(answers: Sequence[object], truths: Sequence[object]) -> float:
    """The share of answers that are right as a whole."""
    right = sum(answer == truth for answer, truth in zip(answers, truths, strict=True))
    return right / len(truths)


def class_f1(
    answers: Sequence[Sequence[int]], truths: Sequence[Sequence[int]], classes: int, scoring: Scoring
) -> float:
    """F1 of answers that are sets of classes: of the positive class, or averaged.

    `macro` is the mean over classes, `weighted` the mean by how often a class is true, `micro` that of all
    answers together. What is no class at all counts as a wrong answer.
    """
    counts = class_counts(answers, truths, classes)
    if scoring.positive is not None:
        return counts[scoring.positive].f1
    if scoring.average == "micro":
        answered, true = sum(map(len, answers)), sum(map(len, truths))
        return Counts(sum(count.hits for count in counts), answered, true).f1
    weights = [count.true if scoring.average == "weighted" else 1 for count in counts]
    return sum(weight * count.f1 for weight, count in zip(weights, counts, strict=True)) / max(
        1, sum(weights)
    )


def class_counts(
    answers: Sequence[Sequence[int]], truths: Sequence[Sequence[int]], classes: int
) -> list[Counts]:
    """The counts of each class."""
    pairs = zip(answers, truths, strict=True)
    hits = Counter(label for answer, truth in pairs for label in {*answer} & {*truth})
    answered, true = (Counter(label for labels in sets for label in {*labels}) for sets in (answers, truths))
    return [Counts(hits[label], answered[label], true[label]) for label in range(classes)]


def number_scores(answers: Sequence[float], truths: Sequence[float]) -> dict[str, float]:
    """Mean squared and absolute error, and Pearson's correlation, which is 0 where either never changes."""
    count = len(truths)
    errors = [answer - truth for answer, truth in zip(answers, truths, strict=True)]
    means = sum(answers) / count, sum(truths) / count
    centred = [
        [value - mean for value in values] for values, mean in zip((answers, truths), means, strict=True)
    ]
    squares = [sum(value * value for value in values) for values in centred]
    product = sum(answer * truth for answer, truth in zip(*centred, strict=True))
    scale = math.sqrt(squares[0] * squares[1])
    return {
        "mse": sum(error * error for error in errors) / count,
        "mae": sum(map(abs, errors)) / count,
        "pearson": product / scale if scale > 0 else 0.0,
    }


def span_scores(answers: Sequence[Span], truths: Sequence[Span]) -> dict[str, float]:
    """The share of spans that are right to the token, and the mean F1 of their tokens."""
    overlaps = [span_f1(answer, truth) for answer, truth in zip(answers, truths, strict=True)]
    return {"exact": accuracy(answers, truths), "f1": sum(overlaps) / len(overlaps)}


def span_f1(answer: Span, truth: Span) -> float:
    hits = max(0, min(answer[1], truth[1]) - max(answer[0], truth[0]) + 1)
    return Counts(hits, answer[1] - answer[0] + 1, truth[1] - truth[0] + 1).f1


def entity_f1(answers: Sequence[Sequence[str]], truths: Sequence[Sequence[str]]) -> float:
    """F1 of named entities, right where their borders and their type are, over all documents."""
    found_and_true = [
        Counter((number, entity) for number, tags in enumerate(tagged) for entity in entities(tags))
        for tagged in (answers, truths)
    ]
    hits = (found_and_true[0] & found_and_true[1]).total()
    return Counts(hits, found_and_true[0].total(), found_and_true[1].total()).f1


def entities(tags: Sequence[str]) -> Iterator[Entity]:
    """The entities of tags such as O, B-PER, I-PER; a run of tags without B- or I- is one, too."""
    start, kind = 0, ""
    for index, tag in enumerate([*tags, "O"]):
        prefix, _, rest = tag.partition("-")
        current = "" if tag == "O" else rest or tag
        if kind and (current != kind or prefix == "B"):
            yield start, index, kind
            kind = ""
        if current and not kind:
            start, kind = index, current
