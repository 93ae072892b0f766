"""A text file as its bytes: plain, compressed (.gz, .xz, .zst), or a pipe.

Offsets are in the text, also where the file is compressed: whoever reads never asks which it is.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, cast

from rmt.errors import DataError

SUFFIXES = (".gz", ".xz", ".zst")
MOST_DICTIONARY = 1 << 28  # bytes that unpacking may hold; xz -9 needs 2^26
BLOCK = 1 << 20  # bytes read at a time where only their number matters
ZSTD_PIECE = 256  # bytes unpacked at a time: 4 of them can stand for 128 KiB, so at most 8 MiB


def open_text(path: Path) -> BinaryIO:
    """The text of a file, to be read as bytes; compressed ones are recognised by their suffix."""
    try:
        if path.suffix not in SUFFIXES:
            return path.open("rb")
        return cast(BinaryIO, io.BufferedReader(Decompressed(path), BLOCK))
    except FileNotFoundError:
        raise DataError(f"{str(path)!r} does not exist; name a text file") from None
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read ({error.strerror}); name another text file") from None


def utf8_text(path: Path, remedy: str = "convert it first") -> str:
    """The whole text of a file that must be UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"file {str(path)!r} is not UTF-8 at byte {error.start}; {remedy}") from None


def text_size(path: Path) -> int:
    """The bytes of a text; a compressed one is read once to count them."""
    if path.suffix not in SUFFIXES:
        return path.stat().st_size
    with open_text(path) as file:
        return sum(len(block) for block in iter(lambda: file.read(BLOCK), b""))


def known_size(path: Path) -> int:
    """The bytes of a text if a look at the file tells them, else 0: of a pipe or a compressed file."""
    return path.stat().st_size if path.is_file() and path.suffix not in SUFFIXES else 0


def is_pipe(path: Path) -> bool:
    """Whether there is something that can be read once and not again, such as <(…) or /dev/stdin."""
    return path.exists() and not path.is_file() and not path.is_dir()


class Decompressed(io.RawIOBase):
    """The text in a compressed file; damage is an error that names the file."""

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.file = path, OPENERS[path.suffix](path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self.file.read(len(buffer))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            reason = str(error) or type(error).__name__
            raise DataError(
                f"{str(self.path)!r} is not a whole {self.path.suffix} file ({reason}); get it again"
            ) from None
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()


def open_xz(path: Path) -> Any:
    """An .xz file whose dictionary, a size that its header is free to name, fits into memory."""
    with path.open("rb") as file:
        start = file.read(BLOCK)
    try:
        lzma.LZMADecompressor(memlimit=MOST_DICTIONARY).decompress(start, max_length=1)
    except lzma.LZMAError as error:
        raise DataError(f"{str(path)!r} is not a whole .xz file ({error}); get it again") from None
    return lzma.open(path)


def open_zstd(path: Path) -> Any:
    """A .zst file, by Python from 3.14 on, else by the package zstandard."""
    try:
        zstd: Any = import_module("compression.zstd")
        return ZstdText(zstd.open(path), zstd.ZstdError)
    except ImportError:
        pass
    try:
        zstandard: Any = import_module("zstandard")
    except ImportError:
        raise DataError(
            f"{str(path)!r} needs Python 3.14 or the package zstandard; pip install zstandard, or unzstd it"
        ) from None
    return ZstdText(ZstdFrames(path.open("rb"), zstandard.ZstdDecompressor()), zstandard.ZstdError)


class ZstdFrames:
    """The text of zstd frames; the own reader of the package zstandard takes a cut frame for a whole one."""

    def __init__(self, file: BinaryIO, decompressor: Any):
        self.file, self.decompressor = file, decompressor
        self.frame, self.text = decompressor.decompressobj(), io.BytesIO()

    def read(self, size: int) -> bytes:
        while not (block := self.text.read(size)):
            piece = self.next_piece()
            if not piece:
                break
            self.text = io.BytesIO(self.frame.decompress(piece))
        return block

    def next_piece(self) -> bytes:
        """Packed bytes for the frame, a new one behind a complete one; none at the end of the file."""
        rest = self.frame.unused_data if self.frame.eof else b""
        piece = rest or self.file.read(ZSTD_PIECE)
        if not piece and not self.frame.eof:
            raise EOFError("it ends inside a frame")
        if piece and self.frame.eof:
            self.frame = self.decompressor.decompressobj()
        return piece

    def close(self) -> None:
        self.file.close()


class ZstdText:
    """An opened .zst file whose errors are those of any damaged file."""

    def __init__(self, file: Any, error: type[Exception]):
        self.file, self.error = file, error

    def read(self, size: int) -> bytes:
        try:
            return cast(bytes, self.file.read(size))
        except self.error as error:
            raise EOFError(str(error)) from None

    def close(self) -> None:
        self.file.close()


OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": open_xz, ".zst": open_zstd}


def skip(file: BinaryIO, count: int) -> int:
    """At the beginning of a file, go on behind its first `count` bytes; returns how many there were."""
    if file.seekable():
        end = file.seek(0, io.SEEK_END)
        return file.seek(min(count, end))
    left = count
    while left and (block := file.read(min(left, BLOCK))):
        left -= len(block)
    return count - left
