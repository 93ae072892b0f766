"""Documents with a number each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rmt.documents.classification import logits_of
from rmt.documents.scores import number_scores
from rmt.documents.task import Document, DocumentTask, Prediction, Row, Scores
from rmt.errors import DataError, shown


class Regression(DocumentTask):
    """A number for each document."""

    name: ClassVar[str] = "regression"
    metrics: ClassVar[tuple[str, ...]] = ("mse", "mae", "pearson")
    is_certain: ClassVar[bool] = True
    lower_is_better: ClassVar[frozenset[str]] = frozenset({"mse", "mae"})

    @classmethod
    def label_of(cls, value: Any, where: str) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(
                f"{where} has the label {shown(value)}, which is no number; mend it, or remove the row"
            )
        return number

    def options(self) -> dict[str, Any]:
        return {"num_labels": 1, "problem_type": "regression"}

    def encode(self, document: Document) -> Row:
        return {**self.tokens(document), "labels": document.label}

    def truth(self, row: Row) -> float:
        return float(row["labels"])

    def answers(self, predictions: Any, targets: Any) -> tuple[list[float], list[float]]:
        return logits_of(predictions).reshape(-1).tolist(), targets.reshape(-1).tolist()

    def measured(self, answers: Sequence[float], truths: Sequence[float]) -> Scores:
        return number_scores(answers, truths)

    def constants(self, truths: Sequence[float], training: Sequence[float]) -> Iterator[list[float]]:
        """The mean and the median of the training documents."""
        for value in (sum(training) / len(training), sorted(training)[len(training) // 2]):
            yield [value] * len(truths)

    def predictions(self, output: Any, inputs: Row, documents: Sequence[Document]) -> list[Prediction]:
        return [Prediction(value, None) for value in output.logits.float().reshape(-1).tolist()]

    def certainty(self, logits: Any) -> Any:
        """The number itself."""
        return logits.reshape(-1)
