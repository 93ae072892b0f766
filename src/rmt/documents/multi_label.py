"""Documents of any number of classes each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rmt.documents.classification import logits_of, uneven
from rmt.documents.scores import accuracy, class_f1
from rmt.documents.task import Document, DocumentTask, Prediction, Row, Scores

Classes = tuple[int, ...]


class MultiLabel(DocumentTask):
    """A set of classes for each document; each class is decided by its own probability."""

    name: ClassVar[str] = "multi-label"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "accuracy")
    fewest_classes: ClassVar[int] = 1
    is_certain: ClassVar[bool] = True

    @classmethod
    def label_of(cls, value: Any, where: str) -> tuple[str, ...]:
        """A list of names, or names with commas between them."""
        names = value if isinstance(value, (list, tuple)) else str(value).split(",")
        return tuple(sorted({str(name).strip() for name in names} - {""}))

    @classmethod
    def names(cls, label: Any) -> tuple[str, ...]:
        return tuple(label)

    def options(self) -> dict[str, Any]:
        return {**super().options(), "problem_type": "multi_label_classification"}

    def encode(self, document: Document) -> Row:
        return {**self.tokens(document), "labels": [float(name in document.label) for name in self.labels]}

    def truth(self, row: Row) -> Classes:
        return above(row["labels"])

    def answers(self, predictions: Any, targets: Any) -> tuple[list[Classes], list[Classes]]:
        answers = [above(logits, 0.0) for logits in logits_of(predictions).tolist()]
        return answers, [above(values) for values in targets.tolist()]

    def measured(self, answers: Sequence[Classes], truths: Sequence[Classes]) -> Scores:
        f1 = class_f1(answers, truths, len(self.labels), self.scoring)
        return {"f1": f1, "accuracy": accuracy(answers, truths)}

    def constants(self, truths: Sequence[Classes], training: Sequence[Classes]) -> Iterator[list[Classes]]:
        """The set that is most often right, the classes of most documents, and all classes."""
        counts = Counter(label for classes in training for label in classes)
        usual = tuple(label for label in range(len(self.labels)) if 2 * counts[label] > len(training))
        frequent = Counter(training).most_common(1)[0][0]
        for classes in (frequent, usual, tuple(range(len(self.labels)))):
            yield [classes] * len(truths)

    def predictions(self, output: Any, inputs: Row, documents: Sequence[Document]) -> list[Prediction]:
        """The names of the classes, and the probability of the decision that is least sure."""
        return [
            Prediction(
                [name for name, value in zip(self.labels, values, strict=True) if value > 0.5],
                min(max(value, 1 - value) for value in values),
            )
            for values in output.logits.float().sigmoid().tolist()
        ]

    def certainty(self, logits: Any) -> Any:
        """All classes are decided alike."""
        sides = (logits[0] > 0).float() * 2 - 1
        return (logits * sides).sigmoid().prod(-1)

    def balance(self, rows: Sequence[Row]) -> str:
        counts = Counter(label for row in rows for label in self.truth(row))
        return uneven(self.labels, counts, len(rows)) if len(self.labels) > 1 else ""


def above(values: Sequence[float], limit: float = 0.5) -> Classes:
    """The classes whose values are above a limit."""
    return tuple(index for index, value in enumerate(values) if value > limit)
