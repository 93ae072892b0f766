"""Questions about documents, answered by a span of the text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from rmt.documents.scores import Span, span_scores
from rmt.documents.tagging import cut
from rmt.documents.task import Document, DocumentTask, Prediction, Row, Scores
from rmt.errors import DataError, shown

LONGEST_ANSWER = 30  # tokens; as in the scripts of SQuAD
NO_ANSWER: Span = (0, 0)  # the first token, which is none of the text
OUT_OF_REACH = 1 << 30  # a position behind the last segment: it is learned nothing from, and never right
MARGINS = ("tokens_before", "tokens_behind")  # of a row, around its text


class Answering(DocumentTask):
    """A span of the text for each question; the question stands before the text."""

    name: ClassVar[str] = "question-answering"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact")
    answers_once: ClassVar[bool] = False
    asks: ClassVar[bool] = True
    targets: ClassVar[list[str] | None] = ["start_positions", "end_positions", *MARGINS]
    head: ClassVar[str] = "AutoModelForQuestionAnswering"

    @classmethod
    def label_of(cls, value: Any, where: str) -> tuple[str, int | None]:
        """An answer and where it starts, as in SQuAD (`text`, `answer_start`), or the answer alone."""
        if not isinstance(value, dict):
            return str(value), None
        texts, starts = value.get("text") or [], value.get("answer_start") or []
        is_whole = isinstance(texts, list) and isinstance(starts, list)
        if not is_whole or not all(isinstance(start, int) for start in starts):
            raise DataError(
                f"{where} has an answer that is none, {shown(value)}; give text and answer_start as lists"
            )
        if len(texts) != len(starts):
            raise DataError(f"{where} has {len(texts)} answers and {len(starts)} starts; give one for each")
        return (str(texts[0]), int(starts[0])) if texts else ("", None)

    def options(self) -> dict[str, Any]:
        return {"num_labels": 2}  # logits of a token: it is the first of the answer, or the last

    def pair(self, document: Document) -> Any:
        return self.tokenizer(document.question, document.text, truncation=False, return_offsets_mapping=True)

    def tokens(self, document: Document) -> Row:
        encoded = dict(self.pair(document))
        del encoded["offset_mapping"]
        return encoded

    def encode(self, document: Document) -> Row:
        first, last = self.span(document)
        margins = dict(zip(MARGINS, self.margins(document), strict=True))
        return {**self.tokens(document), "start_positions": first, "end_positions": last, **margins}

    def span(self, document: Document) -> Span:
        """The tokens of the answer; the first token where there is none."""
        answer, start = document.label
        if not answer:
            return NO_ANSWER
        start = document.text.find(answer) if start is None else start
        if start < 0 or not document.text.startswith(answer, start):
            raise DataError(
                f"the answer {answer[:40]!r} does not stand in its text ({document.text[:40]!r}); give "
                "answers that are parts of the text"
            )
        inside = [
            index
            for index, (low, high) in self.places(document).items()
            if low < start + len(answer) and high > start
        ]
        return (inside[0], inside[-1]) if inside else NO_ANSWER

    def places(self, document: Document) -> dict[int, tuple[int, int]]:
        """The tokens of the text, and which of its characters they are."""
        encoded = self.pair(document)
        owners = encoded.sequence_ids()
        offsets = encoded["offset_mapping"]
        return {index: tuple(offsets[index]) for index, owner in enumerate(owners) if owner == 1}

    def margins(self, document: Document) -> tuple[int, int]:
        """How many tokens stand before the text, and how many behind it."""
        owners = self.pair(document).sequence_ids()
        text = [index for index, owner in enumerate(owners) if owner == 1]
        return (text[0], len(owners) - 1 - text[-1]) if text else (len(owners), 0)

    def fitted(self, row: Row, limit: int, suffix: int) -> Row:
        fitted = {
            name: cut(values, limit, suffix) if isinstance(values, list) else values
            for name, values in row.items()
        }
        for name in ("start_positions", "end_positions"):
            if row.get(name, 0) >= limit - suffix:
                fitted[name] = OUT_OF_REACH
        return fitted

    def truth(self, row: Row) -> Span:
        return row["start_positions"], row["end_positions"]

    def answers(self, predictions: Any, targets: Any) -> tuple[list[Span], list[Span]]:
        answers = [(first, last) for first, last in predictions.tolist()]
        return answers, [(int(first), int(last)) for first, last in zip(*targets[:2], strict=True)]

    def measured(self, answers: Sequence[Span], truths: Sequence[Span]) -> Scores:
        scores = span_scores(answers, truths)
        return {name: scores[name] for name in self.metrics}

    def constants(self, truths: Sequence[Span], training: Sequence[Span]) -> Iterator[list[Span]]:
        """No answer, and the span that is true most often in training."""
        counts = Counter(training)
        for span in (NO_ANSWER, max(sorted(counts), key=lambda span: counts[span])):
            yield [span] * len(truths)

    def predictions(self, output: Any, inputs: Row, documents: Sequence[Document]) -> list[Prediction]:
        """The answers as text, and the probability of their first and last tokens together."""
        spans = self.spans(output, inputs["attention_mask"].bool(), map(self.margins, documents))
        answers = []
        for document, (span, score) in zip(documents, spans, strict=True):
            places = self.places(document)
            text = "" if span == NO_ANSWER else document.text[places[span[0]][0] : places[span[1]][1]]
            answers.append(Prediction(text, math.exp(score)))
        return answers

    def spans(
        self, output: Any, exists: Any, margins: Iterable[Sequence[int]]
    ) -> Iterator[tuple[Span, float]]:
        """What is in the text of the likeliest span of each row, and the logarithm of its probability."""
        starts, ends = (
            logits.float().masked_fill(~exists, float("-inf")).log_softmax(-1).cpu().numpy()
            for logits in (output.start_logits, output.end_logits)
        )
        counts = exists.sum(1).tolist()
        for row, (before, behind) in enumerate(margins):
            span, score = best_span(starts[row], ends[row])
            yield within(span, before, counts[row] - behind), score


def within(span: Span, start: int, end: int) -> Span:
    """What of a span is in a text from token `start` to before `end`; no answer where nothing is."""
    first, last = max(span[0], start), min(span[1], end - 1)
    return (first, last) if first <= last else NO_ANSWER


def best_span(starts: Any, ends: Any) -> tuple[Span, float]:
    """The first and last token with the largest sum of logits, and that sum."""
    best, score = NO_ANSWER, -math.inf
    for length in range(min(LONGEST_ANSWER, len(starts))):
        sums = starts[: len(starts) - length] + ends[length:]
        first = int(sums.argmax())
        if sums[first] > score:
            best, score = (first, first + length), float(sums[first])
    return best, score
