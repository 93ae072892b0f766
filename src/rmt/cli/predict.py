"""`rmt predict RUN FILES…`: the labels of documents, by a run of rmt finetune."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmt.cli.front import Command, TrustOptions
from rmt.cli.pretrained import quiet_transformers
from rmt.config import at_least, option, required
from rmt.errors import DataError, shortened
from rmt.location import trusting
from rmt.precision import TO_USE, AskedPrecision, DeviceName

if TYPE_CHECKING:
    from rmt.documents.deciding import SegmentWeight
    from rmt.documents.task import Prediction
    from rmt.documents.tuned import TunedModel

EXAMPLES = """examples:
  rmt predict runs/reviews-roberta-base-4-10-0 letter.txt speech.txt
  rmt predict RUN new.jsonl --text body --json      a line per row
  rmt predict RUN letter.txt --segments             which segments decided"""


@dataclass(frozen=True, kw_only=True)
class PredictOptions(TrustOptions):
    """The options of `rmt predict`."""

    run: str = required("folder of a finished run of rmt finetune", argument="RUN")
    files: tuple[str, ...] = required("texts, or tables with a column of texts", argument="FILES")
    text: str = option("text", "column of the text in a table")
    question: str = option("question", "column of the question in a table, of question-answering")
    batch: int = option(8, "documents at a time", at_least(1))
    device: DeviceName = option("auto", "where to compute")
    precision: AskedPrecision = option("auto", TO_USE)
    segments: bool = option(False, "also print by how much each segment made the answer more probable")
    json: bool = option(False, "print JSON, a line per document")


COMMAND = Command(
    "predict", "Label documents: the label and its probability, a line each.", EXAMPLES, PredictOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    documents = list(texts(options.files, options))
    if not documents:
        raise DataError(f"{', '.join(options.files)} has no rows: there is nothing to label")
    for named, answer in zip(documents, predicted(options, documents), strict=True):
        print(as_json(named, answer) if options.json else as_text(named, answer), flush=True)
    return 0


class NamedDocument(NamedTuple):
    """A document and where it is from."""

    name: str
    text: str
    question: str = ""


class Answer(NamedTuple):
    """What is printed of a document: the prediction, and maybe what each segment did for it."""

    prediction: Prediction
    weights: list[SegmentWeight]


def as_json(named: NamedDocument, answer: Answer) -> str:
    label, score = answer.prediction
    record = {"file": named.name, "label": label, "score": None if score is None else round(score, 6)}
    if answer.weights:
        record["segments"] = [
            {"text": segment.text, "weight": round(segment.weight, 6)} for segment in answer.weights
        ]
    return json.dumps(record)


def as_text(named: NamedDocument, answer: Answer) -> str:
    """Name, label and probability, with tabs between them; segments below, a line each."""
    label, probability = answer.prediction
    shown = (
        f"{label:.4f}" if isinstance(label, float) else label if isinstance(label, str) else " ".join(label)
    )
    score = [] if probability is None else [f"{probability:.4f}"]
    lines = [
        f"  segment {number}\t{segment.weight:+.4f}\t{shortened(segment.text)}"
        for number, segment in enumerate(answer.weights, 1)
    ]
    return "\n".join(["\t".join([named.name, shown, *score]), *lines])


def texts(files: Sequence[str], options: PredictOptions) -> Iterator[NamedDocument]:
    """Every document with its name; rows of a table are numbered."""
    from rmt.documents.corpus import require_filled, require_text
    from rmt.documents.tables import FORMATS, format_of, rows
    from rmt.textfile import utf8_text

    for file in map(Path, files):
        if not file.exists() or file.is_dir():
            problem = "is a folder" if file.is_dir() else "does not exist"
            raise DataError(f"file {str(file)!r} {problem}; name a text or a table")
        if format_of(file) not in FORMATS:
            yield NamedDocument(str(file), require_text(utf8_text(file), str(file)))
            continue
        for number, row in enumerate(rows(file), 1):
            if options.text not in row:
                raise DataError(f"{file}: row {number} has no column {options.text!r}; name it with --text")
            require_filled(row, options.text, f"{file}: row {number}")
            text = require_text(row[options.text], f"{file}: row {number}")
            question = row.get(options.question)
            yield NamedDocument(f"{file}:{number}", text, "" if question is None else str(question))


def predicted(options: PredictOptions, named: Sequence[NamedDocument]) -> Iterator[Answer]:
    """The answer to each document."""
    quiet_transformers()
    from rmt.documents.deciding import segment_weights
    from rmt.documents.stored import run_task, stored_precision
    from rmt.documents.task import Document
    from rmt.documents.tuned import load_tuned
    from rmt.infer.rows import inference
    from rmt.precision import precision_of, weight_format
    from rmt.train.device import device_of

    run, device = Path(options.run), device_of(options.device)
    precision = precision_of(options.precision, device, stored_precision(run))
    with trusting(options.trust):
        tuned = load_tuned(run, run_task(run), weight_format(precision))
    if tuned.task.asks:
        require_questions(named)
    tuned.model.to(device)
    documents = [Document(document.text, None, document.question) for document in named]
    for start in range(0, len(documents), options.batch):
        batch = documents[start : start + options.batch]
        rows = [tuned.task.tokens(document) for document in batch]
        warn_of_dropped(tuned, rows)
        with inference(tuned.model, precision):
            predictions = tuned.predict(batch, rows)
            weights = [segment_weights(tuned, row, options.batch) if options.segments else [] for row in rows]
        yield from map(Answer, predictions, weights)


def require_questions(named: Sequence[NamedDocument]) -> None:
    """Raise for the first document of which nothing is asked."""
    missing = next((document for document in named if not document.question.strip()), None)
    if missing:
        raise DataError(
            f"{missing.name} has no question; give a table with a column of questions, and name it with "
            "--question"
        )


def warn_of_dropped(tuned: TunedModel, rows: Sequence[dict[str, Any]]) -> None:
    """Say how much of some documents is beyond the last segment."""
    over, settings = tuned.too_long(rows), tuned.model.settings
    if over:
        print(
            f"rmt: {len(over)} documents are longer than {settings.max_segments} segments of "
            f"{settings.segment_length} tokens: {sum(over)} tokens are not read",
            file=sys.stderr,
        )
