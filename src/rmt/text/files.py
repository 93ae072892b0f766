"""The text files of a corpus: which there are, how they are cut into splits, how they are read."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

from rmt.errors import DataError

SPLITS = ("train", "valid", "test")
NAMES = ("{}.txt", "wiki.{}.tokens")  # how the file of a split may be called
SHARES = (90, 95)  # per cent of a text before its validation and its test split
ENOUGH_DOCUMENTS = 20  # so many are split at their borders, fewer by position
BLOCK = 1 << 22  # bytes read at a time
OF_LINES = ("words", "tokenizer")  # kinds of token that never reach over a line break
TITLE = re.compile(rb"\n \n = (?!= )[^\n]* = (?=\n \n)")  # ` = Title = ` between two blank lines of WikiText


class Piece(NamedTuple):
    """A document, or the part of it that is in a split: bytes `start` to `stop` (exclusive) of a file."""

    file: Path
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


Splits = Mapping[str, Sequence[Piece]]


class Source(NamedTuple):
    """A text to prepare: its splits as pieces of files."""

    name: str
    tokens: str  # words, bytes, characters or tokenizer
    splits: Splits
    known: bool = False  # a published corpus, which must have the published counts

    @property
    def files(self) -> list[Path]:
        pieces = (piece for split in self.splits.values() for piece in split)
        return list(dict.fromkeys(piece.file for piece in pieces))


def local_source(place: Path, tokens: str) -> Source:
    """A user's own text: a file, a folder with a file per split, or a folder with a file per document."""
    name, given = place.resolve().name, split_files(place)
    is_split = "train" in given or len(given) > 1
    return Source(name, tokens, whole_splits(given) if is_split else cut(documents(place), tokens))


def split_files(folder: Path) -> dict[str, Path]:
    """The files in a folder that are a split each, such as `train.txt` or `wiki.valid.tokens`."""
    found = {}
    for split in SPLITS:
        files = [folder / name.format(split) for name in NAMES if (folder / name.format(split)).is_file()]
        if len(files) > 1:
            raise DataError(
                f"{str(folder)!r} has both {files[0].name} and {files[1].name}; delete one of them"
            )
        found.update(dict.fromkeys([split] * len(files), *files))
    return found


def whole_splits(files: Mapping[str, Path]) -> Splits:
    """Splits of one file each."""
    return {split: [whole(file)] for split, file in files.items()}


def documents(place: Path) -> list[Path]:
    """A file, or all files below a folder in the order of their paths, except hidden ones."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise DataError(f"{str(place)!r} does not exist; name a text file, or a folder with text files")
    files = (file for file in place.rglob("*") if file.is_file())
    found = sorted(
        file for file in files if not any(part.startswith(".") for part in file.relative_to(place).parts)
    )
    if not found:
        raise DataError(f"{str(place)!r} has no files; put text files there")
    return found


def whole(file: Path) -> Piece:
    """A whole file as one document."""
    size = file.stat().st_size
    if not size:
        raise DataError(f"{str(file)!r} is empty; put its text there, or delete it")
    return Piece(file, 0, size)


def articles(file: Path) -> list[Piece]:
    """A file of WikiText as its articles, each from its title on; the first has what is before its title."""
    size = whole(file).size
    with file.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as text:
        starts = [found.start() + len(b"\n \n") for found in TITLE.finditer(text)]
    return [Piece(file, start, stop) for start, stop in pairwise([0, *starts, size])]


def cut(files: Sequence[Path], tokens: str) -> Splits:
    """The first 90 % of the bytes to train on, 5 % to validate and 5 % to test.

    Twenty or more documents are kept whole. Fewer are cut by position: words and a tokenizer's tokens at the
    next line, characters at the next whole character, bytes exactly.
    """
    pieces = [whole(file) for file in files]
    ends = list(accumulate(piece.size for piece in pieces))
    if len(pieces) >= ENOUGH_DOCUMENTS:
        first, second = document_borders(ends)
        return dict(zip(SPLITS, (pieces[:first], pieces[first:second], pieces[second:]), strict=True))
    borders = [ends[-1] * share // 100 for share in SHARES]
    borders = [0, *(fitting_border(pieces, ends, border, tokens) for border in borders), ends[-1]]
    splits = {
        split: list(between(pieces, ends, start, stop))
        for split, (start, stop) in zip(SPLITS, pairwise(borders), strict=True)
    }
    empty = [split for split, pieces in splits.items() if not pieces]
    if empty:
        unit = "lines" if tokens in OF_LINES else tokens
        raise DataError(
            f"{str(files[0])!r} has too few {unit} to split 90/5/5: {empty[0]} would be empty; "
            "give a longer text, or a folder with train.txt, valid.txt and test.txt"
        )
    return splits


def document_borders(ends: Sequence[int]) -> tuple[int, int]:
    """How many documents come before the validation and before the test split, by their bytes."""
    starts = [0, *ends[:-1]]
    first, second = (
        min(range(len(starts)), key=lambda place: abs(starts[place] * 100 - ends[-1] * share))
        for share in SHARES
    )
    first = min(max(first, 1), len(starts) - 2)
    return first, max(second, first + 1)


def fitting_border(pieces: Sequence[Piece], ends: Sequence[int], border: int, tokens: str) -> int:
    """The first place from `border` on where a token of this kind may end."""
    number = next(number for number, end in enumerate(ends) if border < end)
    start = ends[number] - pieces[number].size
    if tokens == "bytes" or border == start:
        return border
    with pieces[number].file.open("rb") as file:
        if tokens in OF_LINES:
            file.seek(border - start - 1)
            file.readline()
            return start + file.tell()
        file.seek(border - start)
        while (byte := file.read(1)) and byte[0] & 0xC0 == 0x80:  # inside a UTF-8 character
            border += 1
        return border


def between(pieces: Sequence[Piece], ends: Sequence[int], start: int, stop: int) -> Iterator[Piece]:
    """The parts of the pieces that lie between two places of the whole text."""
    for piece, end in zip(pieces, ends, strict=True):
        offset = end - piece.size
        low, high = max(start, offset) - offset, min(stop, end) - offset
        if low < high:
            yield Piece(piece.file, low, high)


def byte_blocks(piece: Piece) -> Iterator[bytes]:
    """The bytes of a piece, block by block."""
    left = piece.size
    with piece.file.open("rb") as file:
        file.seek(piece.start)
        while left:
            block = file.read(min(BLOCK, left))
            if not block:
                raise DataError(f"{str(piece.file)!r} became shorter while it was read; try again")
            left -= len(block)
            yield block


def text_blocks(piece: Piece) -> Iterator[str]:
    """The text of a piece, block by block; NUL and what is not UTF-8 is an error that names its place."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    place = piece.start
    for block in byte_blocks(piece):
        waiting = len(decoder.getstate()[0])
        place += len(block)
        if b"\0" in block:
            raise not_text(piece.file, place - len(block) + block.index(b"\0"), "a NUL byte")
        try:
            yield decoder.decode(block, final=place == piece.stop)
        except UnicodeDecodeError as error:
            raise not_text(piece.file, place - len(block) - waiting + error.start, "invalid UTF-8") from None


def not_text(file: Path, place: int, found: str) -> DataError:
    return DataError(f"{str(file)!r} has {found} at byte {place}; mend it, or use --tokens bytes")


def line_blocks(piece: Piece) -> Iterator[str]:
    """The text of a piece in blocks of whole lines; the last line may lack its line break."""
    rest: list[str] = []
    for block in text_blocks(piece):
        lines, line_break, tail = block.rpartition("\n")
        if line_break:
            yield "".join([*rest, lines, line_break])
            rest = []
        rest.append(tail)
    if any(rest):
        yield "".join(rest)


def existing(place: Path) -> Path:
    """The place, or the nearest folder above it that exists: files made there can be renamed to the place."""
    return next(above for above in (place.absolute(), *place.absolute().parents) if above.exists())


def digest(file: Path, method: str = "sha256") -> str:
    """The checksum of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, method).hexdigest()
