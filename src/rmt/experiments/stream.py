"""A text of any length through a session: read block by block, saved every so many segments."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from rmt.config import positive
from rmt.errors import ConfigError, DataError
from rmt.experiments.opened import open_run
from rmt.infer.session import Session
from rmt.infer.sources import text_pieces
from rmt.precision import AskedPrecision
from rmt.stopping import REQUEST
from rmt.tasks.unknown import UnknownRule
from rmt.textfile import known_size, open_text, skip

LARGEST_BLOCK = 1 << 20  # bytes
TAIL = 4096  # bytes before a place by which a text is known again
STANDARD_INPUT = "-"


def open_session(
    run: str | Path,
    device: str = "auto",
    saved: str | Path | None = None,
    unknown: str = "error",
    precision: AskedPrecision = "auto",
) -> Session:
    """A session with a run's model, tokenizer and segment length, new or as it was saved.

    It is made of the run folder alone. `unknown` says what becomes of symbols that the model does not know:
    error, skip or replace:SYMBOL.
    """
    rule = UnknownRule.parse(unknown)
    opened = open_run(run, device, precision)
    tokenizer = opened.tokenizer.with_unknown(rule)
    if saved is not None:
        return Session.load(saved, opened.model, tokenizer, opened.precision)
    return Session(opened.model, tokenizer, opened.segment_length, precision=opened.precision)


class StreamPosition(NamedTuple):
    """How far a stream has come, kept beside a saved session."""

    source: str  # the path of the file, or - for standard input
    offset: int  # bytes that were read
    every: int  # segments between two saves
    clean: bool  # saved because it was interrupted or at its end, so that nothing is read twice
    tail: str = ""  # checksum of the last bytes before the offset; releases before 0.2 kept none
    digest: str = ""  # checksum of all bytes before the offset; releases before 1.0 kept none


class Progress(NamedTuple):
    """What there is to say while a stream is read."""

    bytes: int  # of the source, with what was read before
    total: int  # of the source, 0 if nobody knows
    tokens: int  # of this session, with what was read before
    perplexity: float
    bits: float
    state_bytes: int
    bytes_per_second: float  # since the last time it was said
    tokens_per_second: float


class TextStream:
    """One source, read through a session."""

    def __init__(self, session: Session, source: str, file: BinaryIO, save: Path | None, every: int):
        positive("save_every", every)
        self.session, self.source, self.file, self.save_to, self.every = session, source, file, save, every
        self.offset = self.unknown = 0  # bytes that were read, symbols that were skipped or replaced
        self.window, self.pending = b"", 0  # the newest bytes, and how many of them are behind the offset
        self.digest = hashlib.sha256()  # of the bytes before the offset
        self.size = min(session.segment_length * max(1, every // 4), LARGEST_BLOCK)  # bytes of a block
        self.saved = self.segments  # whole segments at the last save
        self.waiting = False  # for input: there is nothing to finish

    @property
    def segments(self) -> int:
        return int(self.session.seen[0]) // self.session.segment_length

    def take_up(self, position: StreamPosition) -> bool:
        """Skip what was read of this source before; false if it is another one, to be read from its start.

        A text is the same if its path is, or if it was moved and has the same bytes before the offset. The
        same path with another text is an error, and so is a pipe of which something was read.
        """
        if position.source == STANDARD_INPUT or not same_name(position.source, self.source):
            return False
        if not Path(self.source).is_file():
            raise ConfigError(
                f"file={self.source!r} is a pipe: the {position.offset:,} bytes read do not come again; "
                "give what follows them as - or under another name"
            )
        tail = tail_before(Path(self.source), position.offset)
        digest = digest_before(Path(self.source), position.offset)
        is_same = position.digest in ("", digest.hexdigest())
        if tail is None or position.tail not in ("", checksum(tail)) or not is_same:
            if position.source != self.source:
                return False
            raise DataError(
                f"file={self.source!r} is another text now than the one of which this session has read "
                f"{position.offset:,} bytes; give that one, or a copy of another name to read from its start"
            )
        skip(self.file, position.offset)
        self.offset, self.window, self.digest = position.offset, tail, digest
        return True

    def run(self, report: Callable[[Progress], None]) -> bool:
        """Read to the end; true if that was reached, false if a signal came. Either way, all is saved.

        So is what came before a symbol that the model does not know, which is an error.
        """
        with REQUEST.set_deferred(True):
            try:
                self.feed(report)
            except KeyboardInterrupt:
                if not self.waiting:
                    raise
            except DataError as error:
                self.save(clean=True)
                raise DataError(f"{error}{self.remedy()}") from None
            finished = not (self.waiting or REQUEST.signal)
            self.save(clean=True)
            return finished

    def remedy(self) -> str:
        """How to go on behind an error."""
        return f" and --resume {self.save_to}" if self.save_to is not None else ""

    def feed(self, report: Callable[[Progress], None]) -> None:
        """Feed block after block, saving before more than `every` segments would be lost."""
        total = 0 if self.source == STANDARD_INPUT else known_size(Path(self.source))
        mark, offset, tokens = time.perf_counter(), self.offset, int(self.session.seen)
        name = "standard input" if self.source == STANDARD_INPUT else repr(self.source)
        for piece in text_pieces(self.blocks(), self.session.tokenizer, name, self.offset):
            self.session.feed(
                np.asarray(piece.ids, dtype=np.int64)
            )  # ids of a list would be looked at singly
            self.digest.update(self.window[len(self.window) - self.pending :][: piece.size])
            self.offset, self.unknown = self.offset + piece.size, self.unknown + piece.unknown
            self.pending -= piece.size
            coming = -(-self.size // self.session.segment_length)
            if self.segments - self.saved + coming > self.every:
                self.save(clean=False)
            now = time.perf_counter()
            seconds, score, seen = now - mark, self.session.score(), int(self.session.seen)
            report(
                Progress(
                    self.offset,
                    total,
                    seen,
                    score.perplexity,
                    score.bits,
                    self.session.state.nbytes,
                    (self.offset - offset) / seconds,
                    (seen - tokens) / seconds,
                )
            )
            mark, offset, tokens = now, self.offset, seen
            if REQUEST.signal:
                return

    def blocks(self) -> Iterator[bytes]:
        """The source in blocks of at most `size` bytes, as soon as there are some."""
        while True:
            self.waiting = True
            with REQUEST.at_once():
                block = self.file.read1(self.size)  # type: ignore[attr-defined]
            self.waiting = False
            if not block:
                return
            self.pending += len(block)
            self.window = (self.window + block)[-TAIL - self.pending :]
            yield block

    def save(self, clean: bool) -> None:
        if self.save_to is not None:
            tail = self.window[: len(self.window) - self.pending][-TAIL:]
            sums = checksum(tail), self.digest.hexdigest()
            position = StreamPosition(self.source, self.offset, self.every, clean, *sums)
            self.session.save(self.save_to, position._asdict())
        self.saved = self.segments


def saved_position(session: Session) -> StreamPosition:
    """Where the stream of a saved session stood."""
    needed = set(StreamPosition._fields) - {"tail", "digest"}
    if not needed <= set(session.note) <= set(StreamPosition._fields):
        raise ConfigError("resume: this session was not saved by rmt stream; go on with rmt generate")
    return StreamPosition(**session.note)


def same_name(before: str, now: str) -> bool:
    """Whether two paths may be the same text, at most moved to another folder."""
    return Path(before).name == Path(now).name


def tail_before(path: Path, offset: int) -> bytes | None:
    """The last bytes of a text before a position, or none if it ends before it."""
    with open_text(path) as file:
        size = min(offset, TAIL)
        skip(file, offset - size)
        tail = file.read(size)
    return tail if len(tail) == size else None


def digest_before(path: Path, offset: int) -> Any:
    """The checksum of a text up to a position, which goes on from there."""
    digest, left = hashlib.sha256(), offset
    with open_text(path) as file:
        while left and (block := file.read(min(left, LARGEST_BLOCK))):
            digest.update(block)
            left -= len(block)
    return digest


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def feed_text(session: Session, file: BinaryIO, name: str) -> int:
    """Feed a session with all of a text; returns how many symbols of it the model does not know."""
    unknown = 0
    for piece in text_pieces(iter(lambda: file.read(LARGEST_BLOCK), b""), session.tokenizer, name):
        session.feed(np.asarray(piece.ids, dtype=np.int64))
        unknown += piece.unknown
    return unknown
