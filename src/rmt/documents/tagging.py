"""Documents with a tag for each word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rmt.documents.classification import logits_of, uneven
from rmt.documents.scores import class_f1, entity_f1
from rmt.documents.task import Document, DocumentTask, Prediction, Row, Scores
from rmt.errors import DataError

IGNORED = -100  # of tokens that have no tag: special ones, and all of a word but its first
Tags = list[int]


class Tagging(DocumentTask):
    """A tag for each word; a word is tagged by its first token."""

    name: ClassVar[str] = "token-classification"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "accuracy", "entity_f1")
    fewest_classes: ClassVar[int] = 2
    answers_once: ClassVar[bool] = False
    head: ClassVar[str] = "AutoModelForTokenClassification"

    @classmethod
    def label_of(cls, value: Any, where: str) -> tuple[str, ...]:
        """A list of tags, or tags with blanks between them."""
        return tuple(map(str, value)) if isinstance(value, (list, tuple)) else tuple(str(value).split())

    @classmethod
    def names(cls, label: Any) -> tuple[str, ...]:
        return tuple(label)

    def tokens(self, document: Document) -> Row:
        return dict(self.words(document))

    def words(self, document: Document) -> Any:
        return self.tokenizer(document.text.split(), is_split_into_words=True, truncation=False)

    def encode(self, document: Document) -> Row:
        encoded, count = self.words(document), len(document.text.split())
        if count != len(document.label):
            raise DataError(
                f"a document of {count} words has {len(document.label)} tags ({document.text[:40]!r}); give "
                "a tag for each word between blanks"
            )
        tags, before = [], None
        for word in encoded.word_ids():
            is_first = word is not None and word != before
            tags.append(self.labels.index(document.label[word]) if is_first else IGNORED)
            before = word
        return {**encoded, "labels": tags}

    def fitted(self, row: Row, limit: int, suffix: int) -> Row:
        return {name: cut(values, limit, suffix) for name, values in row.items()}

    def collator(self, model: Any) -> Any:
        import transformers

        return transformers.DataCollatorForTokenClassification(self.tokenizer)

    def truth(self, row: Row) -> Tags:
        return [tag for tag in row["labels"] if tag != IGNORED]

    def answers(self, predictions: Any, targets: Any) -> tuple[list[Tags], list[Tags]]:
        best, tagged = logits_of(predictions).argmax(-1), targets != IGNORED
        answers = [row[mask].tolist() for row, mask in zip(best, tagged, strict=True)]
        return answers, [row[mask].tolist() for row, mask in zip(targets, tagged, strict=True)]

    def measured(self, answers: Sequence[Tags], truths: Sequence[Tags]) -> Scores:
        flat = [[[tag] for tags in documents for tag in tags] for documents in (answers, truths)]
        right = sum(answer == truth for answer, truth in zip(*flat, strict=True))
        names = [
            [[self.labels[tag] for tag in tags] for tags in documents] for documents in (answers, truths)
        ]
        return {
            "f1": class_f1(flat[0], flat[1], len(self.labels), self.scoring),
            "accuracy": right / max(1, len(flat[1])),
            "entity_f1": entity_f1(names[0], names[1]),
        }

    def constants(self, truths: Sequence[Tags], training: Sequence[Tags]) -> Iterator[list[Tags]]:
        for tag in range(len(self.labels)):
            yield [[tag] * len(tags) for tags in truths]

    def predictions(self, output: Any, inputs: Row, documents: Sequence[Document]) -> list[Prediction]:
        """The tags of a document's words, and the probability of the tag that is least sure."""
        best = output.logits.float().softmax(-1).max(-1)
        answers = []
        for row, document in enumerate(documents):
            owners = self.words(document).word_ids()
            end = end_of_text(owners, int(inputs["attention_mask"][row].sum()))
            first = [first_token(owners, *word) for word in enumerate(document.text.split())]
            kept = [index for index in first if index < end]
            tags = [self.labels[tag] for tag in best.indices[row, kept].tolist()]
            answers.append(Prediction(tags, min(best.values[row, kept].tolist())))
        return answers

    def balance(self, rows: Sequence[Row]) -> str:
        counts = Counter(tag for row in rows for tag in self.truth(row))
        line = uneven(self.labels, counts, counts.total())
        return line.replace("training documents", "tags of the training documents")


def first_token(owners: list[int | None], number: int, word: str) -> int:
    """The first of the tokens whose `owners` are the numbers of words."""
    if number not in owners:
        raise DataError(
            f"word {number + 1}, {word!r}, has no token in this tokenizer; take it out of the text"
        )
    return owners.index(number)


def end_of_text(owners: list[int | None], count: int) -> int:
    """Where the text ends in a row of `count` tokens, which may be cut, and then ends as the whole does.

    `owners` of the whole row's tokens are none for special ones.
    """
    if len(owners) <= count:
        return count
    special = next(number for number, owner in enumerate(reversed(owners)) if owner is not None)
    return count - special


def cut(values: list[Any], limit: int, suffix: int) -> list[Any]:
    """What fits, and behind it the special tokens at the end."""
    return values if len(values) <= limit else [*values[: limit - suffix], *values[len(values) - suffix :]]
