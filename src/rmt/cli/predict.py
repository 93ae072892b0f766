"""`rmt predict RUN FILES…`: the labels of documents, by a run of rmt finetune."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rmt.cli.arguments import command, one_of, parsed
from rmt.errors import ConfigError, DataError

EXAMPLES = """examples:
  rmt predict runs/reviews-roberta-base-4-10-0 letter.txt speech.txt
  rmt predict RUN new.jsonl --text body --json      a line per row"""
TABLES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


def main(argv: Sequence[str]) -> int:
    parser = command("rmt predict", "Label documents: the label and its probability, a line each.", EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="folder of a finished run of rmt finetune")
    parser.add_argument("files", metavar="FILES", nargs="*", help="texts, or tables with a column of texts")
    parser.add_argument("--text", default="text", help="column of the text in a table (default: text)")
    parser.add_argument("--batch", type=int, default=8, help="documents at a time (default: 8)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--json", action="store_true", help="print JSON, a line per document")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    one_of(arguments.device, ["auto", "cpu", "cuda"], "device")
    if arguments.batch < 1:
        raise ConfigError(f"batch={arguments.batch} must be at least 1")
    if not arguments.files:
        raise ConfigError("FILES are missing: name the documents to label")
    found = list(texts(arguments.files, arguments.text))
    for (name, _), (label, score) in zip(
        found, labelled(arguments, [text for _, text in found]), strict=True
    ):
        record = {"file": name, "label": label, "score": round(score, 6)}
        print(json.dumps(record) if arguments.json else f"{name}\t{label}\t{score:.4f}", flush=True)
    return 0


def texts(files: Sequence[str], column: str) -> Iterator[tuple[str, str]]:
    """Every document with its name; rows of a table are numbered."""
    from rmt.documents.corpus import rows

    for file in map(Path, files):
        if not file.is_file():
            raise DataError(f"file {str(file)!r} does not exist; name a text or a table")
        if file.suffix not in TABLES:
            yield whole(str(file), file.read_text(encoding="utf-8", errors="strict"))
            continue
        for number, row in enumerate(rows(file), 1):
            if column not in row:
                raise DataError(f"{file}: row {number} has no column {column!r}; name it with --text")
            yield whole(f"{file}:{number}", str(row[column]))


def whole(name: str, text: str) -> tuple[str, str]:
    if not text.strip():
        raise DataError(f"{name} is empty: there is nothing to label")
    return name, text


def labelled(arguments: Any, documents: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Label and probability of each document."""
    import transformers

    from rmt.documents.classifier import load_classifier
    from rmt.train.device import device_of

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    classifier = load_classifier(arguments.run)
    settings = classifier.model.settings
    classifier.model.to(device_of(arguments.device))
    for start in range(0, len(documents), arguments.batch):
        some = [classifier.tokens(text) for text in documents[start : start + arguments.batch]]
        over = classifier.too_long(some)
        if over:
            print(
                f"rmt: {len(over)} documents are longer than {settings.max_segments} segments of "
                f"{settings.segment_length} tokens: {sum(over)} tokens are not read",
                file=sys.stderr,
            )
        yield from classifier.predict(some)
