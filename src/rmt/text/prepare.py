"""A corpus is turned once into memory-mapped token files: the folder appears whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.errors import DataError
from rmt.seal import checksum, sealed
from rmt.store import NotWritten, whole_folder
from rmt.tasks.unknown import UnknownRule
from rmt.text.corpora import usual
from rmt.text.corpus import DESCRIPTION, FORMAT, Corpus, check_corpus, open_corpus, stored
from rmt.text.files import SPLITS, FileSpan, Source
from rmt.text.sums import sampled_checksum
from rmt.text.vocabulary import (
    ERROR,
    FILE,
    BlockIds,
    UnknownSymbol,
    Vocabulary,
    load_vocabulary,
    vocabulary_kind,
)


class OtherText(DataError):
    """A prepared corpus that is of another text than the one named."""


class Overtaken(Exception):
    """Another process has prepared a corpus there in the meantime."""


def prepare_corpus(
    source: Source,
    out: Path,
    vocabulary: Path | None = None,
    force: bool = False,
    rule: UnknownRule = ERROR,
) -> Corpus:
    """Write the token files of a source into the folder `out`, unless it has the same corpus already."""
    identity = {
        "format": FORMAT,
        "name": source.name,
        "known": source.known,
        "tokens": source.tokens,
        "sources": {str(file): checksum(file) for file in source.files},
        "given_vocabulary": checksum(vocabulary_file(vocabulary)) if vocabulary else None,
    }
    if (out / DESCRIPTION).is_file() and not force:
        return same_corpus(out, identity)
    try:
        with new_folder(out, force) as folder:
            description = sealed(identity | write_corpus(source, vocabulary, folder, rule))
            (folder / DESCRIPTION).write_text(readable(description), encoding="utf-8")
    except Overtaken:
        return same_corpus(out, identity)
    return Corpus(out, description)


def write_corpus(source: Source, vocabulary: Path | None, folder: Path, rule: UnknownRule) -> dict[str, Any]:
    """Write the vocabulary and the token files of a source; returns what its description says of them."""
    symbols, notes = choose_vocabulary(source, vocabulary)
    known = usual(source)
    if known and "train" in source.splits and vocabulary is None:
        check_number("vocabulary", len(symbols), source, known.vocabulary)
    symbols.write(folder / FILE)
    splits = {
        split: write_split(source, split, symbols, folder / f"{split}.bin", rule) for split in source.splits
    }
    if known:
        check_number("tokens", total(splits), source, known.total)
    return {
        "vocabulary": len(symbols),
        "vocabulary_sha256": checksum(folder / FILE),
        "dtype": stored(len(symbols)).name,
        "notes": notes,
        "splits": splits,
    }


def readable(description: dict[str, Any]) -> str:
    """Indented JSON, a list of numbers on one line: WikiText-103 has 28,475 articles."""
    text = json.dumps(description, indent=1)
    return re.sub(r"\[\n[\d,\s]+\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"


def total(splits: dict[str, dict[str, Any]]) -> int:
    """The tokens of all splits."""
    return sum(int(split["tokens"]) for split in splits.values())


def vocabulary_file(path: Path) -> Path:
    file = path / FILE if path.is_dir() else path
    load_vocabulary(file)
    return file


def same_corpus(out: Path, identity: dict[str, Any]) -> Corpus:
    """What is in the folder already, if it is the corpus asked for and undamaged."""
    corpus = open_corpus(out)
    sources = list(corpus.description["sources"].values())
    wanted = identity | {"sources": list(identity["sources"].values())}
    if {**{name: corpus.description.get(name) for name in identity}, "sources": sources} != wanted:
        raise OtherText(
            f"out={str(out)!r} has another corpus; name another folder, or replace it with --force"
        )
    check_corpus(out)
    return corpus


def choose_vocabulary(source: Source, path: Path | None) -> tuple[Vocabulary, list[str]]:
    """The vocabulary given or made of the text, and what a reader should know of it."""
    missing = [split for split in SPLITS if split not in source.splits]
    notes = [f"no {split} split" for split in missing]
    if path is not None:
        chosen = load_vocabulary(path)
        if chosen.kind != source.tokens:
            raise DataError(
                f"vocabulary={str(path)!r} is of {chosen.kind}, not {source.tokens}; "
                f"use --tokens {chosen.kind}"
            )
        return chosen, notes
    kind = vocabulary_kind(source.tokens)
    used = list(source.splits)
    if kind.from_train_only and "train" in used:
        used = ["train"]
    elif kind.from_train_only:
        notes.append(f"the vocabulary is made of {' and '.join(used)}; --vocabulary takes another corpus's")
    closed = None if source.occurring else kind.closed()
    if closed is not None:
        return closed, notes
    pieces = (piece for split in used for piece in source.splits[split])
    return kind.of(block for piece in pieces for block in kept_blocks(source, kind, piece)), notes


def kept_blocks(
    source: Source, kind: type[Vocabulary], piece: FileSpan, strict: bool = True
) -> Iterator[Any]:
    """The blocks of a piece, without the bytes that the source drops."""
    blocks = kind.blocks(piece, strict)
    return (block.translate(None, source.dropped) for block in blocks) if source.dropped else blocks


def write_split(
    source: Source, split: str, vocabulary: Vocabulary, file: Path, rule: UnknownRule
) -> dict[str, Any]:
    """Write the ids of one split; returns what `corpus.json` says of it."""
    starts, tokens, unknown_words = [], 0, 0
    with file.open("wb") as opened:
        for piece in source.splits[split]:
            starts.append(tokens)
            offset = piece.start
            for block in kept_blocks(source, type(vocabulary), piece, strict=rule.rule == "error"):
                ids, strange = encode(vocabulary, block, rule, (piece.file, offset))
                opened.write(ids.astype(stored(len(vocabulary))).tobytes())
                tokens, unknown_words = tokens + len(ids), unknown_words + strange
                offset += (
                    len(block) if isinstance(block, bytes) else len(block.encode("utf-8", "surrogateescape"))
                )
    if not tokens:
        raise DataError(f"{split} of {source.name!r} has no tokens; give more text, or another tokenizer")
    known = usual(source)
    if known and known.counts:
        check_number(f"{split} tokens", tokens, source, known.counts[split])
    return {
        "tokens": tokens,
        "unknown": unknown_words,
        "bytes": sum(piece.size for piece in source.splits[split]),
        "sha256": checksum(file),
        "sampled_sha256": sampled_checksum(file),
        "documents": starts,
    }


def encode(vocabulary: Vocabulary, block: Any, rule: UnknownRule, where: tuple[Path, int]) -> BlockIds:
    """The ids of a block, which starts at a byte of a file."""
    file, offset = where
    try:
        return vocabulary.encode(block, rule)
    except UnknownSymbol as error:
        raise DataError(
            f"{str(file)!r} has {error.problem} at byte {offset + error.size:,}: not in the vocabulary; "
            "leave out --vocabulary"
        ) from None
    except DataError as error:
        raise DataError(f"{str(file)!r}: {error}") from None


def check_number(what: str, got: int, source: Source, expected: int | None) -> None:
    if expected not in (None, got):
        folder = str(source.files[0].parent)
        raise DataError(
            f"{what} of {source.name} in {folder!r}: {got:,} instead of {expected:,}; "
            "get a whole and unchanged copy"
        )


@contextmanager
def new_folder(out: Path, force: bool) -> Iterator[Path]:
    """A temporary folder that takes the place of `out` at the end; after an error nothing has changed."""
    is_corpus = (out / DESCRIPTION).is_file()
    if is_corpus and not force:
        raise Overtaken
    if out.exists() and not (is_corpus or (out.is_dir() and not any(out.iterdir()))):
        raise DataError(f"out={str(out)!r} exists and is not a prepared corpus; name another folder")
    try:
        with whole_folder(out, replace=force) as folder:
            try:
                yield folder
            except BaseException:  # Ctrl-C, too
                shutil.rmtree(folder, ignore_errors=True)
                raise
    except NotWritten as error:
        if not force and (out / DESCRIPTION).is_file():
            raise Overtaken from None
        raise DataError(
            f"out={str(out)!r} cannot be written ({error.strerror}); name another folder, or make room"
        ) from None
