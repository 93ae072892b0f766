"""Documents with labels, from tables or folders of texts, with their splits or made ones."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from rmt.documents.classification import Classification
from rmt.documents.tables import FORMATS, format_of, rows
from rmt.documents.task import Document, DocumentTask
from rmt.errors import DataError
from rmt.textfile import utf8_text

SPLITS = {"train": ("train",), "valid": ("valid", "validation", "dev", "val"), "test": ("test",)}
SHARE = 10  # per cent of the training documents for a split that is not given


class DocumentCorpus(NamedTuple):
    """Documents by split; every split whose name begins with `test` is measured."""

    splits: dict[str, list[Document]]
    labels: list[str]  # the names of all classes, sorted
    notes: list[str]  # what was done that nobody asked for
    positive: str | None = None  # the class whose F1 is that of the data set


class Columns(NamedTuple):
    """The names of the fields of a row."""

    text: str = "text"
    label: str = "label"
    split: str = "split"
    question: str = "question"


def load_corpus(
    path: str | Path, columns: Columns, kind: type[DocumentTask] = Classification
) -> DocumentCorpus:
    """The documents of a file, of a folder with a file per split, or of a folder with a folder per class."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"data={str(path)!r} does not exist; name a file or a folder of documents")
    if path.is_file():
        return corpus(by_split(rows(path), Table(path, columns, kind)), kind)
    files = split_files(path)
    if files:
        tables = {split: Table(file, columns, kind) for split, file in files.items()}
        return corpus(
            {split: list(table.documents(rows(table.file))) for split, table in tables.items()}, kind
        )
    if kind is not Classification:
        raise DataError(f"data={str(path)!r}: folders of texts are classes; task={kind.name!r} needs a table")
    folders = {split: folder for split in SPLITS if (folder := path / split).is_dir()}
    if folders:
        return corpus({split: list(labelled_folders(folder)) for split, folder in folders.items()}, kind)
    return corpus({"train": list(labelled_folders(path))}, kind)


def corpus(splits: dict[str, list[Document]], kind: type[DocumentTask]) -> DocumentCorpus:
    """The splits that are given, and those that are not taken from the training documents."""
    splits = {split: members for split, members in splits.items() if members}
    if "train" not in splits:
        raise DataError(
            "there are no training documents: give a split named train, or one file without splits"
        )
    counts = Counter(name for document in splits["train"] for name in kind.names(document.label))
    if len(counts) < kind.fewest_classes:
        raise DataError(
            f"all {len(splits['train'])} training documents have the label {next(iter(counts), '')!r}: there "
            f"is nothing to tell apart; give documents of {kind.fewest_classes} classes or more"
        )
    missing = [split for split in ("valid", "test") if split not in splits]
    splits |= divide(splits["train"], missing, kind)
    notes = [
        f"{split}: {len(splits[split])} documents, taken from the training documents" for split in missing
    ]
    for split, members in splits.items():
        unseen = {name for document in members for name in kind.names(document.label)} - counts.keys()
        if unseen:
            raise DataError(f"split {split} has the label {min(unseen)!r}, which no training document has")
    return DocumentCorpus(splits, sorted(counts), notes)


def divide(
    training: list[Document], missing: list[str], kind: type[DocumentTask]
) -> dict[str, list[Document]]:
    """A share of each class for the splits that are missing, the rest to train: the same ones each time."""
    if not missing:
        return {"train": training}
    splits: dict[str, list[Document]] = {split: [] for split in ("train", *missing)}
    for label, group in shuffled_groups(training, kind).items():
        if len(group) <= len(missing):
            raise DataError(f"{counted(label, group)}: too few to split; give the splits")
        share = max(1, len(group) * SHARE // 100)
        for number, split in enumerate(missing):
            splits[split] += group[number * share : (number + 1) * share]
        splits["train"] += group[len(missing) * share :]
    return splits


def shuffled_groups(documents: Iterable[Document], kind: type[DocumentTask]) -> dict[str, list[Document]]:
    """Documents by what splits should have equal shares of, shuffled in the same way each time."""
    groups: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        groups[kind.group(document.label)].append(document)
    for group in groups.values():
        random.Random(0).shuffle(group)
    return dict(sorted(groups.items()))


def counted(label: str, group: Sequence[Document]) -> str:
    """How many documents of a label there are; of no label, how many there are at all."""
    return f"label {label!r} has {len(group)} documents" if label else f"there are {len(group)} documents"


def fold_of(whole: DocumentCorpus, number: int, folds: int, kind: type[DocumentTask]) -> DocumentCorpus:
    """Cross-validation over all documents: fold `number` is the test, a share of the rest validates."""
    everything = [document for split in SPLITS for document in whole.splits[split]]
    test: list[Document] = []
    rest: list[Document] = []
    for label, group in shuffled_groups(everything, kind).items():
        if len(group) < folds:
            raise DataError(f"{counted(label, group)}: too few for folds={folds}")
        for index, document in enumerate(group):
            (test if index % folds == number else rest).append(document)
    splits = {**divide(rest, ["valid"], kind), "test": test}
    notes = [f"fold {number} of {folds}: {', '.join(f'{len(splits[name])} {name}' for name in SPLITS)}"]
    return whole._replace(splits=splits, notes=notes)


def split_files(folder: Path) -> dict[str, Path]:
    """The files of a folder that are a split each, such as `train.jsonl` or `dev.csv`."""
    present = {(file.stem, format_of(file)): file for file in sorted(folder.iterdir()) if file.is_file()}
    files = {}
    for split, names in SPLITS.items():
        if file := next((present[key] for key in product(names, FORMATS) if key in present), None):
            files[split] = file
    return files


class Table(NamedTuple):
    """A file of rows, its columns, and what their labels mean."""

    file: Path
    columns: Columns
    kind: type[DocumentTask]

    def documents(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Document]:
        """Rows as documents."""
        return (self.document(row, number) for number, row in enumerate(rows, 1))

    def document(self, row: Mapping[str, Any], number: int) -> Document:
        """A row as a document; a missing column or an empty text is an error that names the row."""
        columns, where = self.columns, f"{self.file}: row {number}"
        for column in (columns.text, columns.label, *([columns.question] if self.kind.asks else [])):
            require_filled(row, column, where)
            if column not in row:
                raise DataError(
                    f"{where} has no column {column!r}; it has {', '.join(map(str, row))}; name it with "
                    "--text or --label"
                )
        text = require_text(row[columns.text], where)
        question = str(row[columns.question]) if self.kind.asks else ""
        return Document(text, self.kind.label_of(row[columns.label], where), question)


def by_split(table: Iterable[Mapping[str, Any]], source: Table) -> dict[str, list[Document]]:
    """The rows of one file; a column `split` says where they belong."""
    table, column = list(table), source.columns.split
    if not table:
        raise DataError(f"{source.file} has no rows: there is nothing to learn from; give labelled documents")
    if column not in table[0]:
        return {"train": list(source.documents(table))}
    known = {name: split for split, names in SPLITS.items() for name in names}
    groups: dict[str, list[Document]] = defaultdict(list)
    for number, row in enumerate(table, 1):
        if column not in row:
            raise DataError(
                f"{source.file}: row {number} has no column {column!r}; fill it in all rows, or leave it out"
            )
        name = str(row[column])
        if name not in known:
            raise DataError(f"{source.file}: split={name!r} is none of {', '.join(known)}")
        groups[known[name]].append(source.document(row, number))
    return dict(groups)


def require_filled(row: Mapping[str, Any], column: str, where: str) -> None:
    """Raise for a column that is there and has nothing in this row."""
    if column in row and row[column] is None:
        raise DataError(f"{where} has nothing in column {column!r}; fill or remove it")


def require_text(text: Any, where: str) -> str:
    """A text that is not empty; words of a list with blanks between them."""
    joined = " ".join(map(str, text)) if isinstance(text, (list, tuple)) else str(text)
    if not joined.strip():
        raise DataError(f"{where} has an empty text; remove it")
    return joined


def labelled_folders(folder: Path) -> Iterator[Document]:
    """Texts in a folder per class."""
    files = sorted(folder.glob("*/*.txt"))
    if not files:
        raise DataError(
            f"{folder} has no documents: neither train.jsonl or such, nor a folder per class with .txt files"
        )
    for file in files:
        text = require_text(utf8_text(file), str(file))
        yield Document(text, Classification.label_of(file.parent.name, str(file)))
