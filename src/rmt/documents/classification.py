"""Documents of one class each, told by a head, or written as text by an encoder-decoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rmt.documents.scores import accuracy, class_f1
from rmt.documents.task import Document, DocumentTask, Prediction, Row, Scores
from rmt.errors import DataError

UNEVEN = 1.5  # times as many documents as of the rarest class: worth a line


class Classification(DocumentTask):
    """A class for each document."""

    name: ClassVar[str] = "classification"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "accuracy")
    fewest_classes: ClassVar[int] = 2
    is_certain: ClassVar[bool] = True

    @classmethod
    def label_of(cls, value: Any, where: str) -> str:
        label = str(value).lower() if isinstance(value, bool) else str(value).strip()
        if not label:
            raise DataError(f"{where} has an empty label; fill it, or remove the document")
        return label

    @classmethod
    def names(cls, label: Any) -> tuple[str, ...]:
        return (label,)

    @classmethod
    def group(cls, label: Any) -> str:
        return str(label)

    def options(self) -> dict[str, Any]:
        return {**super().options(), "problem_type": "single_label_classification"}

    def encode(self, document: Document) -> Row:
        return {**self.tokens(document), "labels": self.labels.index(document.label)}

    def truth(self, row: Row) -> int:
        return int(row["labels"])

    def answers(self, predictions: Any, targets: Any) -> tuple[list[int], list[int]]:
        return logits_of(predictions).argmax(-1).tolist(), targets.tolist()

    def measured(self, answers: Sequence[int], truths: Sequence[int]) -> Scores:
        sets = ([answer] for answer in answers), ([truth] for truth in truths)
        f1 = class_f1(list(sets[0]), list(sets[1]), len(self.labels), self.scoring)
        return {"f1": f1, "accuracy": accuracy(answers, truths)}

    def constants(self, truths: Sequence[int], training: Sequence[int]) -> Iterator[list[int]]:
        for label in range(len(self.labels)):
            yield [label] * len(truths)

    def predictions(self, output: Any, inputs: Row, documents: Sequence[Document]) -> list[Prediction]:
        best = output.logits.float().softmax(-1).max(-1)
        return [
            Prediction(self.labels[index], value)
            for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def certainty(self, logits: Any) -> Any:
        probabilities = logits.softmax(-1)
        return probabilities[:, probabilities[0].argmax()]

    def balance(self, rows: Sequence[Row]) -> str:
        return uneven(self.labels, Counter(self.truth(row) for row in rows), len(rows))


class WrittenClassification(Classification):
    """The same, where the model writes the name of the class; any other text is a wrong answer."""

    head: ClassVar[str] = "AutoModelForSeq2SeqLM"
    is_certain: ClassVar[bool] = False

    def options(self) -> dict[str, Any]:
        return DocumentTask.options(self)

    @property
    def longest_label(self) -> int:
        """Tokens of the longest label and its end."""
        return max(len(self.tokenizer(text_target=label).input_ids) for label in self.labels) + 1

    def named(self, text: str) -> int:
        """The class that a text names, or -1."""
        return list(self.labels).index(text.strip()) if text.strip() in self.labels else -1

    def encode(self, document: Document) -> Row:
        ids = self.tokenizer(text_target=document.label).input_ids
        written = self.tokenizer.decode(ids, skip_special_tokens=True)
        if self.named(written) < 0:
            raise DataError(
                f"label={document.label!r} becomes {written!r} in the backbone's tokens, so no answer could "
                "be right; name the class in words that it can write"
            )
        return {**self.tokens(document), "labels": ids}

    def collator(self, model: Any) -> Any:
        import transformers

        return transformers.DataCollatorForSeq2Seq(self.tokenizer, model)

    def truth(self, row: Row) -> int:
        return self.named(self.tokenizer.decode(row["labels"], skip_special_tokens=True))

    def answers(self, predictions: Any, targets: Any) -> tuple[list[int], list[int]]:
        import numpy as np

        answers, truths = (
            self.tokenizer.batch_decode(
                np.where(ids < 0, self.tokenizer.pad_token_id, ids), skip_special_tokens=True
            )
            for ids in (predictions, targets)
        )
        return [self.named(text) for text in answers], [self.named(text) for text in truths]

    def predict(self, model: Any, inputs: Any, documents: Sequence[Document]) -> list[Prediction]:
        """The written labels and the probability of each as a whole; 0 for what is no label."""
        import torch

        written = model.generate(
            **{name: inputs[name] for name in ("input_ids", "attention_mask")},
            max_new_tokens=self.longest_label,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        texts = self.tokenizer.batch_decode(written.sequences, skip_special_tokens=True)
        tokens = written.sequences[:, -len(written.logits) :]
        log_probs = torch.stack([step.float().log_softmax(-1) for step in written.logits], dim=1)
        chosen = log_probs.gather(2, tokens[..., None])[..., 0]
        probabilities = (chosen * (tokens != self.tokenizer.pad_token_id)).sum(1).exp().tolist()
        return [
            Prediction(text.strip(), probability if self.named(text) >= 0 else 0.0)
            for text, probability in zip(texts, probabilities, strict=True)
        ]


def logits_of(predictions: Any) -> Any:
    """The logits among what a Trainer has collected; some models give more."""
    return predictions[0] if isinstance(predictions, tuple) else predictions


def uneven(labels: Sequence[str], counts: Counter[int], total: int) -> str:
    """A line about classes with many more documents than the rarest."""
    most = max(range(len(labels)), key=lambda label: counts[label])
    least = min(range(len(labels)), key=lambda label: counts[label])
    if counts[most] < UNEVEN * counts[least]:
        return ""
    return (
        f"classes are uneven: {counts[most]} of {total} training documents are {labels[most]!r} and "
        f"{counts[least]} are {labels[least]!r}; compare each score with that of a constant answer"
    )
