"""Tables of documents: the rows of a JSON, CSV or parquet file, each by the names of its columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rmt.errors import DataError
from rmt.jsonfile import json_lines, parse_json

FORMATS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
ENCODING = "utf-8-sig"  # UTF-8, with the byte-order mark that spreadsheets put in front or without


def rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, by the ending of its name."""
    readers = {
        ".jsonl": json_rows,
        ".json": json_rows,
        ".csv": csv_rows,
        ".tsv": csv_rows,
        ".parquet": parquet_rows,
    }
    if format_of(file) not in readers:
        raise DataError(f"{file}: unknown format {file.suffix!r}; use one of {', '.join(FORMATS)}")
    try:
        yield from readers[format_of(file)](file)
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8 at byte {error.start}; convert it first") from None


def json_rows(file: Path) -> Iterator[dict[str, Any]]:
    """One JSON object per line, or one list of them."""
    text = file.read_text(encoding=ENCODING)
    if text.lstrip().startswith("["):
        try:
            rows = parse_json(text)
        except ValueError as error:
            raise DataError(f"{file} is not JSON ({error})") from None
        yield from (json_object(row, f"{file}: row {number}") for number, row in enumerate(rows, 1))
        return
    for number, line in enumerate(json_lines(text), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise DataError(f"{file}: line {number} is not JSON ({error})") from None
        yield json_object(row, f"{file}: line {number}")


def json_object(row: Any, where: str) -> dict[str, Any]:
    """A row, if it is an object of whole characters: JSON can name one half of a pair of surrogates."""
    if not isinstance(row, dict):
        raise DataError(f"{where} is not a JSON object with a text and a label")
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise DataError(f"{where} has {half!r}, which is half a character; remove it") from None
    return row


def csv_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Rows with a header, separated by commas, or tabs in a .tsv."""
    csv.field_size_limit(1 << 30)
    separator, name = ("\t", "tabs") if format_of(file) == ".tsv" else (",", "commas")
    with file.open(encoding=ENCODING, newline="") as lines:
        table = filter(None, csv.reader(lines, delimiter=separator, strict=True))
        try:
            header = next(table, [])
            for number, cells in enumerate(table, 1):
                if len(cells) != len(header):
                    raise DataError(
                        f"{file}: row {number} has {len(cells)} cells, the header {len(header)}; put quotes "
                        f"around texts with {name}"
                    )
                yield dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise DataError(f"{file} is not a table ({error}); save it again as {file.suffix}") from None


def parquet_rows(file: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError:
        raise DataError(f"{file}: reading parquet needs pyarrow: pip install pyarrow") from None
    try:
        yield from parquet.read_table(file).to_pylist()
    except (ArrowException, OSError) as error:
        raise DataError(f"{file} is not whole ({' '.join(str(error).split())}); get it again") from None


def format_of(file: Path) -> str:
    """The ending of a file's name, which some programs write in capitals."""
    return file.suffix.lower()
