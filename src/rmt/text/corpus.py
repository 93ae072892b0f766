"""A prepared corpus: memory-mapped token files, opened and checked.

Its folder has `corpus.json` (counts, checksums, also its own), `vocabulary.json` and a .bin file per split:
token ids, little-endian, two bytes each up to 65,536 symbols and four above.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from rmt.errors import DataError, RMTError, shown, unknown
from rmt.jsonfile import parse_json
from rmt.seal import SEAL, checksum, record_checksum
from rmt.text.files import SPLITS
from rmt.text.sums import is_large, known_checksum
from rmt.text.vocabulary import FILE, Vocabulary, load_vocabulary

FORMAT = 2
DESCRIPTION = "corpus.json"
CHECKED = 1 << 22  # ids looked at in one go
PREPARE_AGAIN = "prepare the corpus again with rmt data prepare … --force"
FIELDS: dict[str, type] = {
    "name": str,
    "tokens": str,
    "sources": dict,
    "vocabulary": int,
    "vocabulary_sha256": str,
    "notes": list,
    "splits": dict,
}
SPLIT_FIELDS: dict[str, type] = {
    "tokens": int,
    "unknown": int,
    "bytes": int,
    "sha256": str,
    "documents": list,
}


class Corpus(NamedTuple):
    """A prepared corpus: its folder and the content of its `corpus.json`."""

    folder: Path
    description: dict[str, Any]

    @property
    def splits(self) -> dict[str, dict[str, Any]]:
        return cast(dict[str, dict[str, Any]], self.description["splits"])

    def tokens(self, split: str) -> np.ndarray:
        """The token ids of a split, (n,), memory-mapped and read-only, as they were prepared."""
        self.require(split)
        check_sum(self, split)
        return self.mapped(split)

    def mapped(self, split: str) -> np.ndarray:
        return np.memmap(self.file(split), dtype=stored(self.description["vocabulary"]), mode="r")

    def file(self, split: str) -> Path:
        """The token file of a split."""
        return self.folder / f"{split}.bin"

    def documents(self, split: str) -> list[int]:
        """Where in a split documents start; 0 is always one of the places."""
        self.require(split)
        return cast(list[int], self.splits[split]["documents"])

    def vocabulary(self) -> Vocabulary:
        return load_vocabulary(self.folder)

    def require(self, split: str) -> None:
        if split not in self.splits:
            raise unknown("split", split, self.splits)


def stored(vocabulary: int) -> np.dtype:
    """The number type of ids on disk."""
    return np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")


def open_corpus(folder: Path) -> Corpus:
    """A prepared corpus: its description is whole, its files are there in their sizes, with its vocabulary.

    Token files are summed when their tokens are asked for, once in a process.
    """
    file = folder / DESCRIPTION
    if not file.is_file():
        raise DataError(f"{str(folder)!r} is not a prepared corpus: no {DESCRIPTION}; see rmt data prepare")
    try:
        description = parse_json(file.read_text(encoding="utf-8"))
        version = description["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise damaged(file, "it cannot be read") from None
    if version != FORMAT:
        raise DataError(
            f"{str(file)!r} has format {shown(version)}, this release reads {FORMAT}; {PREPARE_AGAIN}"
        )
    require_fields(description, FIELDS, file)
    if not description["splits"]:
        raise damaged(file, "it has no splits")
    corpus = Corpus(folder, description)
    for split in corpus.splits:
        check_described(corpus, split)
    check_vocabulary(corpus)
    content = {key: value for key, value in description.items() if key != SEAL}
    if description.get(SEAL, record_checksum(content)) != record_checksum(content):
        raise damaged(file, f"its content does not match its {SEAL}")
    return corpus


def require_fields(record: Any, fields: dict[str, type], file: Path) -> None:
    """Raise for the first field that is not there or not of its kind."""
    for name, kind in fields.items():
        value = record.get(name) if isinstance(record, dict) else None
        is_negative = isinstance(value, int) and value < 0
        if not isinstance(value, kind) or isinstance(value, bool) or is_negative:
            raise damaged(file, f"{name!r} is not as it should be")


def check_described(corpus: Corpus, split: str) -> None:
    """What is said of a split is possible, and its file has the size that follows from it."""
    described, file = corpus.splits[split], corpus.folder / DESCRIPTION
    if split not in SPLITS:
        raise damaged(file, f"{shown(split)} is not a split")
    require_fields(described, SPLIT_FIELDS, file)
    starts = described["documents"]
    are_numbers = all(type(start) is int for start in starts)
    if not are_numbers or starts != sorted(starts) or starts[:1] != [0] or starts[-1] > described["tokens"]:
        raise damaged(file, f"documents of {split} are not places in it, in order")
    tokens = corpus.file(split)
    expected = described["tokens"] * stored(corpus.description["vocabulary"]).itemsize
    if not tokens.is_file():
        raise damaged(tokens, "it is missing")
    if not expected:
        raise damaged(file, f"{split} has no tokens")
    if tokens.stat().st_size != expected:
        raise damaged(tokens, f"it has {tokens.stat().st_size:,} bytes instead of {expected:,}")


def check_vocabulary(corpus: Corpus) -> None:
    file, size = corpus.folder / FILE, corpus.description["vocabulary"]
    if not file.is_file():
        raise damaged(file, "it is missing")
    if known_checksum(file) != corpus.description["vocabulary_sha256"]:
        raise damaged(file, "its checksum is wrong")
    if vocabulary_size(file.resolve(), corpus.description["vocabulary_sha256"]) != size:
        raise damaged(file, f"it has {len(corpus.vocabulary()):,} symbols instead of {size:,}")


@lru_cache(maxsize=256)
def vocabulary_size(file: Path, content: str) -> int:
    """The symbols of a vocabulary whose file has the checksum `content`."""
    return len(load_vocabulary(file))


def check_sum(corpus: Corpus, split: str) -> None:
    """The tokens of a split are those that were prepared; of a very large file, as far as samples tell."""
    file, described = corpus.file(split), corpus.splits[split]
    sampled = is_large(file) and "sampled_sha256" in described
    if known_checksum(file, sampled) != described["sampled_sha256" if sampled else "sha256"]:
        raise damaged(file, "its checksum is wrong")


def check_corpus(folder: Path) -> Corpus:
    """A prepared corpus, after all its checksums, counts and ids have been looked at."""
    corpus = open_corpus(folder)
    for split in corpus.splits:
        check_split(corpus, split)
    return corpus


def check_split(corpus: Corpus, split: str) -> None:
    file, ids = corpus.file(split), corpus.mapped(split)
    highest = max(int(ids[start : start + CHECKED].max()) for start in range(0, len(ids), CHECKED))
    if highest >= corpus.description["vocabulary"]:
        raise damaged(
            file, f"it has the id {highest}, the vocabulary {corpus.description['vocabulary']} symbols"
        )
    if checksum(file) != corpus.splits[split]["sha256"]:
        raise damaged(file, "its checksum is wrong")


def damaged(file: Path, how: str) -> RMTError:
    return DataError(f"{str(file)!r} is damaged: {how}; {PREPARE_AGAIN}")
