"""What is learned of documents: how labels are given, which head learns them, how answers are scored.

A kind of task is one class with these methods, in a file of its own, and a line in `rmt.documents.kinds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from rmt.documents.scores import Scoring

Row = dict[str, Any]  # the tokens of a document, and what is to be answered
Scores = dict[str, float]


class Document(NamedTuple):
    """A text, what is true of it, and what is asked."""

    text: str
    label: Any
    question: str = ""


class Prediction(NamedTuple):
    """The answer to a document, and how probable it is; none where that has no meaning."""

    label: Any
    score: float | None


@dataclass(frozen=True, kw_only=True)
class DocumentTask(ABC):
    """A kind of task with its labels, its tokenizer, and what decides which model is best."""

    labels: Sequence[str]
    scoring: Scoring
    tokenizer: Any

    name: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]  # the first is the default
    lower_is_better: ClassVar[frozenset[str]] = frozenset()
    fewest_classes: ClassVar[int] = 0  # that there is something to learn from; 0: there are no classes
    answers_once: ClassVar[bool] = True  # per document, by its last segment; else per token
    asks: ClassVar[bool] = False  # documents have a question
    is_certain: ClassVar[bool] = False  # an answer's probability can be compared between texts
    head: ClassVar[str] = "AutoModelForSequenceClassification"
    targets: ClassVar[list[str] | None] = None  # what a row has besides its tokens; none = as the head says

    @classmethod
    @abstractmethod
    def label_of(cls, value: Any, where: str) -> Any:
        """What is true of a document, from a cell of a table."""

    @classmethod
    def names(cls, label: Any) -> tuple[str, ...]:
        """The names of the classes in a label."""
        return ()

    @classmethod
    def group(cls, label: Any) -> str:
        """What splits should have equal shares of."""
        return ""

    def options(self) -> dict[str, Any]:
        """What the configuration of a model says of the labels."""
        return {
            "num_labels": len(self.labels),
            "id2label": dict(enumerate(self.labels)),
            "label2id": {label: index for index, label in enumerate(self.labels)},
        }

    def tokens(self, document: Document) -> Row:
        """A text as the backbone's tokens, all of them."""
        return dict(self.tokenizer(document.text, truncation=False))

    @abstractmethod
    def encode(self, document: Document) -> Row:
        """The tokens of a document and its label."""

    def fitted(self, row: Row, limit: int, suffix: int) -> Row:
        """A row of which nothing is beyond the last segment; a model that answers once cuts by itself."""
        return row

    def collator(self, model: Any) -> Any:
        """What makes a batch of rows."""
        import transformers

        return transformers.DataCollatorWithPadding(self.tokenizer)

    @abstractmethod
    def truth(self, row: Row) -> Any:
        """What is true of an encoded document, as answers are compared with it."""

    @abstractmethod
    def answers(self, predictions: Any, targets: Any) -> tuple[list[Any], list[Any]]:
        """Answers and truths of what a Trainer has collected."""

    @abstractmethod
    def measured(self, answers: Sequence[Any], truths: Sequence[Any]) -> Scores:
        """All scores of some answers."""

    @abstractmethod
    def constants(self, truths: Sequence[Any], training: Sequence[Any]) -> Iterator[list[Any]]:
        """Answers to documents that no document was looked at for: the same for all of them."""

    @abstractmethod
    def predictions(self, output: Any, inputs: Row, documents: Sequence[Document]) -> list[Prediction]:
        """What a model's output for some documents means."""

    def predict(self, model: Any, inputs: Any, documents: Sequence[Document]) -> list[Prediction]:
        """The model's answers to a padded batch of documents."""
        return self.predictions(model(**inputs), inputs, documents)

    def score(self, predictions: Any, targets: Any) -> Scores:
        """All scores of what a Trainer has collected."""
        return self.measured(*self.answers(predictions, targets))

    def constant_scores(self, rows: Sequence[Row], training: Sequence[Row]) -> Scores:
        """The best that the same answer for all documents can come to, metric by metric."""
        truths = [self.truth(row) for row in rows]
        candidates = self.constants(truths, [self.truth(row) for row in training])
        scores = [self.measured(answers, truths) for answers in candidates]
        return {
            metric: (min if metric in self.lower_is_better else max)(score[metric] for score in scores)
            for metric in scores[0]
        }

    def certainty(self, logits: Any) -> Any:
        """How probable the answer of the first row of logits is in each row, where that has a meaning."""
        raise NotImplementedError

    def balance(self, rows: Sequence[Row]) -> str:
        """A line about classes of which there are many more documents than of others; nothing if even."""
        return ""
