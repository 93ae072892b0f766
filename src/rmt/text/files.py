"""The text files of a corpus: which there are, how they are cut into splits, how they are read."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

from rmt.errors import DataError
from rmt.textfile import SUFFIXES, is_pipe, open_text, skip, text_size

SPLITS = ("train", "valid", "test")
NAMES = tuple(  # how the file of a split may be called
    name + suffix for name in ("{}.txt", "wiki.{}.tokens") for suffix in ("", *SUFFIXES)
)
SHARES = (90, 95)  # per cent of a text before its validation and its test split
ENOUGH_DOCUMENTS = 20  # so many are split at their borders, fewer by position
BLOCK = 1 << 22  # bytes read at a time
OF_LINES = ("words", "tokenizer")  # kinds of token that never reach over a line break
TITLE = re.compile(rb"\n \n = (?!= )[^\n]* = (?=\n \n)")  # ` = Title = ` between two blank lines of WikiText


class FileSpan(NamedTuple):
    """A document, or the part of it that is in a split: bytes `start` to `stop` (exclusive) of a text."""

    file: Path
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


Splits = Mapping[str, Sequence[FileSpan]]


class Source(NamedTuple):
    """A text to prepare: its splits as pieces of files."""

    name: str
    tokens: str  # words, bytes, characters or tokenizer
    splits: Splits
    known: bool = False  # a published corpus, which must have the published counts
    dropped: bytes = b""  # bytes that are left out
    occurring: bool = False  # bytes: only those that occur have an id

    @property
    def files(self) -> list[Path]:
        pieces = (piece for split in self.splits.values() for piece in split)
        return list(dict.fromkeys(piece.file for piece in pieces))


def local_source(path: Path, tokens: str, occurring: bool = False) -> Source:
    """A user's own text: a file, a folder with a file per split, or a folder with a file per document."""
    files = split_files(path)
    is_split = "train" in files or len(files) > 1
    splits = whole_splits(files) if is_split else cut(documents(path), tokens)
    return Source(path.resolve().name, tokens, splits, occurring=occurring)


def split_files(folder: Path) -> dict[str, Path]:
    """The files in a folder that are a split each, such as `train.txt` or `wiki.valid.tokens`."""
    files_of: dict[str, Path] = {}
    for split in SPLITS:
        files = [folder / name.format(split) for name in NAMES if (folder / name.format(split)).is_file()]
        if len(files) > 1:
            raise DataError(
                f"{str(folder)!r} has both {files[0].name} and {files[1].name}; delete one of them"
            )
        files_of.update((split, file) for file in files)
    return files_of


def whole_splits(files: Mapping[str, Path]) -> Splits:
    """Splits of one file each."""
    return {split: [whole(file)] for split, file in files.items()}


def documents(path: Path) -> list[Path]:
    """A file, or all files below a folder in the order of their paths, except hidden ones."""
    if path.is_file():
        return [path]
    if is_pipe(path):
        raise DataError(f"{str(path)!r} is a pipe: a corpus is read more than once; put it into a file first")
    if not path.is_dir():
        raise DataError(f"{str(path)!r} does not exist; name a text file, or a folder with text files")
    below = (file for file in path.rglob("*") if file.is_file())
    files = sorted(
        file for file in below if not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not files:
        raise DataError(f"{str(path)!r} has no files; put text files there")
    return files


def whole(file: Path) -> FileSpan:
    """A whole file as one document."""
    size = text_size(file)
    if not size:
        raise DataError(f"{str(file)!r} is empty; put its text there, or delete it")
    return FileSpan(file, 0, size)


def articles(file: Path) -> list[FileSpan]:
    """A file of WikiText as its articles, each from its title on; the first has what is before its title."""
    size = whole(file).size
    with file_text(file) as text:
        starts = [title.start() + len(b"\n \n") for title in TITLE.finditer(text)]
    return [FileSpan(file, start, stop) for start, stop in pairwise([0, *starts, size])]


@contextmanager
def file_text(file: Path) -> Iterator[Any]:
    """The whole text of a file as one run of bytes: mapped, or in memory if it is compressed."""
    with open_text(file) as opened:
        if file.suffix in SUFFIXES:
            yield opened.read()
            return
        with mmap(opened.fileno(), 0, access=ACCESS_READ) as text:
            yield text


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
        min(range(len(starts)), key=lambda index: abs(starts[index] * 100 - ends[-1] * share))
        for share in SHARES
    )
    first = min(max(first, 1), len(starts) - 2)
    return first, max(second, first + 1)


def fitting_border(pieces: Sequence[FileSpan], ends: Sequence[int], border: int, tokens: str) -> int:
    """The first place from `border` on where a token of this kind may end."""
    number = next(number for number, end in enumerate(ends) if border < end)
    start = ends[number] - pieces[number].size
    if tokens == "bytes" or border == start:
        return border
    with open_text(pieces[number].file) as file:
        if tokens in OF_LINES:
            skip(file, border - start - 1)
            return border - 1 + len(file.readline())
        skip(file, border - start)
        while (byte := file.read(1)) and byte[0] & 0xC0 == 0x80:  # inside a UTF-8 character
            border += 1
        return border


def between(pieces: Sequence[FileSpan], ends: Sequence[int], start: int, stop: int) -> Iterator[FileSpan]:
    """The parts of the pieces that lie between two places of the whole text."""
    for piece, end in zip(pieces, ends, strict=True):
        offset = end - piece.size
        low, high = max(start, offset) - offset, min(stop, end) - offset
        if low < high:
            yield FileSpan(piece.file, low, high)


def byte_blocks(piece: FileSpan) -> Iterator[bytes]:
    """The bytes of a piece, block by block."""
    left = piece.size
    with open_text(piece.file) as file:
        skip(file, piece.start)
        while left:
            block = file.read(min(BLOCK, left))
            if not block:
                raise DataError(f"{str(piece.file)!r} became shorter while it was read; try again")
            left -= len(block)
            yield block


def text_blocks(piece: FileSpan, strict: bool = True) -> Iterator[str]:
    """The text of a piece, block by block; NUL and what is not UTF-8 is an error that names its place.

    Unless it is not strict: then a byte that is not UTF-8 comes as a lone surrogate (PEP 383).
    """
    decoder = codecs.getincrementaldecoder("utf-8")("strict" if strict else "surrogateescape")
    offset = piece.start
    for block in byte_blocks(piece):
        waiting = len(decoder.getstate()[0])
        offset += len(block)
        if strict and b"\0" in block:
            raise not_text(piece.file, offset - len(block) + block.index(b"\0"), "a NUL byte")
        try:
            yield decoder.decode(block, final=offset == piece.stop)
        except UnicodeDecodeError as error:
            raise not_text(piece.file, offset - len(block) - waiting + error.start, "invalid UTF-8") from None


def not_text(file: Path, offset: int, problem: str) -> DataError:
    return DataError(f"{str(file)!r} has {problem} at byte {offset}; mend it, or use --tokens bytes")


def line_blocks(piece: FileSpan, strict: bool = True) -> Iterator[str]:
    """The text of a piece in blocks of whole lines; the last line may lack its line break."""
    rest: list[str] = []
    for block in text_blocks(piece, strict):
        lines, line_break, tail = block.rpartition("\n")
        if line_break:
            yield "".join([*rest, lines, line_break])
            rest = []
        rest.append(tail)
    if any(rest):
        yield "".join(rest)
