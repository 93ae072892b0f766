"""`rmt predict RUN FILES…`: the labels of documents, by a run of rmt finetune."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rmt.cli.front import Command, TrustOptions
from rmt.cli.pretrained import quiet_transformers
from rmt.config import at_least, option, required
from rmt.errors import DataError
from rmt.location import trusting
from rmt.precision import TO_USE, AskedPrecision

EXAMPLES = """examples:
  rmt predict runs/reviews-roberta-base-4-10-0 letter.txt speech.txt
  rmt predict RUN new.jsonl --text body --json      a line per row"""
TABLES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class PredictOptions(TrustOptions):
    """The options of `rmt predict`."""

    run: str = required("folder of a finished run of rmt finetune", argument="RUN")
    files: tuple[str, ...] = required("texts, or tables with a column of texts", argument="FILES")
    text: str = option("text", "column of the text in a table")
    batch: int = option(8, "documents at a time", at_least(1))
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")
    precision: AskedPrecision = option("auto", TO_USE)
    json: bool = option(False, "print JSON, a line per document")


COMMAND = Command(
    "predict", "Label documents: the label and its probability, a line each.", EXAMPLES, PredictOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    documents = list(texts(options.files, options.text))
    if not documents:
        raise DataError(f"{', '.join(options.files)} has no rows: there is nothing to label")
    labels = labelled(options, [text for _, text in documents])
    for (name, _), (label, score) in zip(documents, labels, strict=True):
        record = {"file": name, "label": label, "score": round(score, 6)}
        print(json.dumps(record) if options.json else f"{name}\t{label}\t{score:.4f}", flush=True)
    return 0


def texts(files: Sequence[str], column: str) -> Iterator[tuple[str, str]]:
    """Every document with its name; rows of a table are numbered."""
    from rmt.documents.corpus import rows

    for file in map(Path, files):
        if not file.is_file():
            raise DataError(f"file {str(file)!r} does not exist; name a text or a table")
        if file.suffix not in TABLES:
            yield whole(str(file), text_of(file))
            continue
        for number, row in enumerate(rows(file), 1):
            if column not in row:
                raise DataError(f"{file}: row {number} has no column {column!r}; name it with --text")
            yield whole(f"{file}:{number}", str(row[column]))


def text_of(file: Path) -> str:
    """A text in UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"file {str(file)!r} is not UTF-8 at byte {error.start}; convert it first") from None


def whole(name: str, text: str) -> tuple[str, str]:
    if not text.strip():
        raise DataError(f"{name} is empty: there is nothing to label")
    return name, text


def labelled(options: PredictOptions, documents: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Label and probability of each document."""
    quiet_transformers()
    from rmt.documents.classifier import load_classifier
    from rmt.documents.stored import stored_precision
    from rmt.infer.rows import inference
    from rmt.precision import precision_of, weight_format
    from rmt.train.device import device_of

    device = device_of(options.device)
    precision = precision_of(options.precision, device, stored_precision(Path(options.run)))
    with trusting(options.trust):
        classifier = load_classifier(options.run, weight_format(precision))
    settings = classifier.model.settings
    classifier.model.to(device)
    for start in range(0, len(documents), options.batch):
        rows = [classifier.tokens(text) for text in documents[start : start + options.batch]]
        over = classifier.too_long(rows)
        if over:
            print(
                f"rmt: {len(over)} documents are longer than {settings.max_segments} segments of "
                f"{settings.segment_length} tokens: {sum(over)} tokens are not read",
                file=sys.stderr,
            )
        with inference(classifier.model, precision):
            labels = classifier.predict(rows)
        yield from labels
