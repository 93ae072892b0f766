"""A corpus is turned once into memory-mapped token files: train.bin, valid.bin and test.bin.

A prepared folder has `corpus.json` (counts, checksums), `vocabulary.json` and a .bin file per split: token
ids, little-endian, two bytes each up to 65,536 symbols and four above. It appears whole or not at all.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rmt.errors import DataError, RMTError, unknown
from rmt.text.corpora import usual
from rmt.text.files import SPLITS, Piece, Source, digest, existing
from rmt.text.vocabulary import FILE, Vocabulary, read_vocabulary, vocabulary_kind

FORMAT = 2
DESCRIPTION = "corpus.json"
CHECKED = 1 << 22  # ids looked at in one go


class Corpus(NamedTuple):
    """A prepared corpus: its folder and the content of its `corpus.json`."""

    folder: Path
    description: dict[str, Any]

    @property
    def splits(self) -> dict[str, dict[str, Any]]:
        return self.description["splits"]

    def tokens(self, split: str) -> np.ndarray:
        """The token ids of a split, (n,), memory-mapped and read-only."""
        self.require(split)
        return np.memmap(self.folder / f"{split}.bin", dtype=stored(self.description["vocabulary"]), mode="r")

    def documents(self, split: str) -> list[int]:
        """Where in a split documents start; 0 is always one of the places."""
        self.require(split)
        return self.splits[split]["documents"]

    def vocabulary(self) -> Vocabulary:
        return read_vocabulary(self.folder)

    def require(self, split: str) -> None:
        if split not in self.splits:
            raise unknown("split", split, self.splits)


def prepare_corpus(source: Source, out: Path, vocabulary: Path | None = None, force: bool = False) -> Corpus:
    """Write the token files of a source into the folder `out`, unless it has the same corpus already."""
    identity = {
        "format": FORMAT,
        "name": source.name,
        "known": source.known,
        "tokens": source.tokens,
        "sources": {str(file): digest(file) for file in source.files},
        "given_vocabulary": digest(vocabulary_file(vocabulary)) if vocabulary else None,
    }
    if (out / DESCRIPTION).is_file() and not force:
        return same_corpus(out, identity)
    with new_folder(out, force) as folder:
        symbols, notes = choose_vocabulary(source, vocabulary)
        known = usual(source)
        if known and "train" in source.splits and vocabulary is None:
            check_number("vocabulary", len(symbols), source, known.vocabulary)
        symbols.write(folder / FILE)
        description = identity | {
            "vocabulary": len(symbols),
            "vocabulary_sha256": digest(folder / FILE),
            "dtype": stored(len(symbols)).name,
            "notes": notes,
            "splits": {
                split: write_split(source, split, symbols, folder / f"{split}.bin") for split in source.splits
            },
        }
        (folder / DESCRIPTION).write_text(readable(description), encoding="utf-8")
    return Corpus(out, description)


def readable(description: dict[str, Any]) -> str:
    """Indented JSON, a list of numbers on one line: WikiText-103 has 28,475 articles."""
    text = json.dumps(description, indent=1)
    return re.sub(r"\[\n[\d,\s]+\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"


def vocabulary_file(place: Path) -> Path:
    file = place / FILE if place.is_dir() else place
    read_vocabulary(file)
    return file


def same_corpus(out: Path, identity: dict[str, Any]) -> Corpus:
    """What is in the folder already, if it is the corpus asked for and undamaged."""
    there = open_corpus(out)
    sources = list(there.description["sources"].values())
    wanted = identity | {"sources": list(identity["sources"].values())}
    if {**{name: there.description.get(name) for name in identity}, "sources": sources} != wanted:
        raise DataError(
            f"out={str(out)!r} has another corpus; name another folder, or replace it with --force"
        )
    check_corpus(out)
    return there


def choose_vocabulary(source: Source, place: Path | None) -> tuple[Vocabulary, list[str]]:
    """The vocabulary given or made of the text, and what a reader should know of it."""
    missing = [split for split in SPLITS if split not in source.splits]
    notes = [f"no {split} split" for split in missing]
    if place is not None:
        given = read_vocabulary(place)
        if given.kind != source.tokens:
            raise DataError(
                f"vocabulary={str(place)!r} is of {given.kind}, not {source.tokens}; "
                f"use --tokens {given.kind}"
            )
        return given, notes
    kind = vocabulary_kind(source.tokens)
    used = list(source.splits)
    if kind.from_train_only and "train" in used:
        used = ["train"]
    elif kind.from_train_only:
        notes.append(f"the vocabulary is made of {' and '.join(used)}; --vocabulary takes another corpus's")
    blocks = (block for split in used for piece in source.splits[split] for block in kind.blocks(piece))
    return kind.of(blocks), notes


def write_split(source: Source, split: str, vocabulary: Vocabulary, file: Path) -> dict[str, Any]:
    """Write the ids of one split; returns what `corpus.json` says of it."""
    starts, tokens, unknown_words = [], 0, 0
    with file.open("wb") as opened:
        for piece in source.splits[split]:
            starts.append(tokens)
            for block in vocabulary.blocks(piece):
                ids, strange = encode(vocabulary, block, piece)
                opened.write(ids.astype(stored(len(vocabulary))).tobytes())
                tokens, unknown_words = tokens + len(ids), unknown_words + strange
    if not tokens:
        raise DataError(f"{split} of {source.name!r} has no tokens; give more text, or another tokenizer")
    known = usual(source)
    if known and known.counts:
        check_number(f"{split} tokens", tokens, source, known.counts[split])
    return {
        "tokens": tokens,
        "unknown": unknown_words,
        "bytes": sum(piece.size for piece in source.splits[split]),
        "sha256": digest(file),
        "documents": starts,
    }


def encode(vocabulary: Vocabulary, block: Any, piece: Piece) -> tuple[np.ndarray, int]:
    try:
        return vocabulary.encode(block)
    except DataError as error:
        raise DataError(f"{str(piece.file)!r}: {error}") from None


def check_number(what: str, got: int, source: Source, expected: int | None) -> None:
    if expected not in (None, got):
        place = str(source.files[0].parent)
        raise DataError(
            f"{what} of {source.name} in {place!r}: {got:,} instead of {expected:,}; "
            "get a whole and unchanged copy"
        )


def stored(vocabulary: int) -> np.dtype:
    """The number type of ids on disk."""
    return np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")


@contextmanager
def new_folder(out: Path, force: bool) -> Iterator[Path]:
    """A temporary folder that takes the place of `out` at the end; after an error nothing has changed."""
    if out.exists() and not (
        out.is_dir() and (not any(out.iterdir()) or (force and (out / DESCRIPTION).is_file()))
    ):
        raise DataError(f"out={str(out)!r} exists and is not a prepared corpus; name another folder")
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=existing(out.absolute().parent)))
    except OSError as error:
        raise DataError(
            f"out={str(out)!r} cannot be written ({error.strerror}); name another folder"
        ) from None
    try:
        made = temporary / "new"
        made.mkdir()
        yield made
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists():
            out.rename(temporary / "old")
        made.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_corpus(folder: Path) -> Corpus:
    """A prepared corpus, without reading its tokens."""
    file = folder / DESCRIPTION
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
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
    file, said = corpus.folder / f"{split}.bin", corpus.splits[split]
    expected = said["tokens"] * stored(corpus.description["vocabulary"]).itemsize
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
    if digest(file) != said["sha256"]:
        raise damaged(file, "its checksum is wrong")
    starts = said["documents"]
    if starts != sorted(starts) or starts[:1] != [0] or starts[-1] > said["tokens"]:
        raise damaged(corpus.folder / DESCRIPTION, f"documents of {split} are not places in it, in order")


def damaged(file: Path, how: str) -> RMTError:
    return DataError(f"{str(file)!r} is damaged: {how}; prepare the corpus again with --force")
