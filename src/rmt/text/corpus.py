"""A prepared corpus: memory-mapped token files, opened and checked.

Its folder has `corpus.json` (counts, checksums), `vocabulary.json` and a .bin file per split: token ids,
little-endian, two bytes each up to 65,536 symbols and four above.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from rmt.errors import DataError, RMTError, unknown
from rmt.jsonfile import parse_json
from rmt.text.files import digest
from rmt.text.vocabulary import FILE, Vocabulary, load_vocabulary

FORMAT = 2
DESCRIPTION = "corpus.json"
CHECKED = 1 << 22  # ids looked at in one go


class Corpus(NamedTuple):
    """A prepared corpus: its folder and the content of its `corpus.json`."""

    folder: Path
    description: dict[str, Any]

    @property
    def splits(self) -> dict[str, dict[str, Any]]:
        return cast(dict[str, dict[str, Any]], self.description["splits"])

    def tokens(self, split: str) -> np.ndarray:
        """The token ids of a split, (n,), memory-mapped and read-only."""
        self.require(split)
        return np.memmap(self.folder / f"{split}.bin", dtype=stored(self.description["vocabulary"]), mode="r")

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
    """A prepared corpus, without reading its tokens."""
    file = folder / DESCRIPTION
    try:
        description = parse_json(file.read_text(encoding="utf-8"))
        version = description["format"]
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{str(folder)!r} is not a prepared corpus: no {DESCRIPTION}; see rmt data prepare"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise damaged(file, "it cannot be read") from None
    if version != FORMAT:
        raise DataError(
            f"{str(file)!r} has format {version!r}, this release reads {FORMAT}; "
            "prepare the corpus again with --force"
        )
    return Corpus(folder, description)


def check_corpus(folder: Path) -> Corpus:
    """A prepared corpus, after its checksums, counts and ids have been looked at."""
    corpus = open_corpus(folder)
    try:
        check_vocabulary(corpus)
        for split in corpus.splits:
            check_split(corpus, split)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(folder / DESCRIPTION, f"{error} is not as it should be") from None
    return corpus


def check_vocabulary(corpus: Corpus) -> None:
    file, size = corpus.folder / FILE, corpus.description["vocabulary"]
    if not file.is_file():
        raise damaged(file, "it is missing")
    if digest(file) != corpus.description["vocabulary_sha256"]:
        raise damaged(file, "its checksum is wrong")
    if len(corpus.vocabulary()) != size:
        raise damaged(file, f"it has {len(corpus.vocabulary()):,} symbols instead of {size:,}")


def check_split(corpus: Corpus, split: str) -> None:
    file, described = corpus.folder / f"{split}.bin", corpus.splits[split]
    expected = described["tokens"] * stored(corpus.description["vocabulary"]).itemsize
    if not file.is_file():
        raise damaged(file, "it is missing")
    if file.stat().st_size != expected:
        raise damaged(file, f"it has {file.stat().st_size:,} bytes instead of {expected:,}")
    ids = corpus.tokens(split)
    highest = max(int(ids[start : start + CHECKED].max()) for start in range(0, len(ids), CHECKED))
    if highest >= corpus.description["vocabulary"]:
        raise damaged(
            file, f"it has the id {highest}, the vocabulary {corpus.description['vocabulary']} symbols"
        )
    if digest(file) != described["sha256"]:
        raise damaged(file, "its checksum is wrong")
    starts = described["documents"]
    if starts != sorted(starts) or starts[:1] != [0] or starts[-1] > described["tokens"]:
        raise damaged(corpus.folder / DESCRIPTION, f"documents of {split} are not places in it, in order")


def damaged(file: Path, how: str) -> RMTError:
    return DataError(f"{str(file)!r} is damaged: {how}; prepare the corpus again with --force")
