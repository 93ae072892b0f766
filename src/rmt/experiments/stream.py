"""A file of any length through a session: read block by block, saved every so many segments."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rmt.config import positive
from rmt.errors import ConfigError
from rmt.infer.session import Session
from rmt.infer.sources import text_pieces
from rmt.tasks.segments import segment_length
from rmt.text.task import Text
from rmt.text.tokenizer import tokenizer_of
from rmt.train.checkpoint import load, read_config, run_folder
from rmt.train.config import build_task
from rmt.train.device import device_of

LARGEST_BLOCK = 1 << 20  # bytes


def open_session(run: str | Path, device: str = "auto", saved: str | Path | None = None) -> Session:
    """A session with a run's model, tokenizer and segment length, new or as it was saved."""
    config = read_config(run_folder(run))
    model, task = load(run).to(device_of(device)), build_task(config.task)
    tokenizer = tokenizer_of(task)
    if saved is not None:
        return Session.load(saved, model, tokenizer)
    if isinstance(task, Text):
        return Session(model, tokenizer, config.task.segment_length)
    return Session(model, tokenizer, segment_length(task.total_length, config.task.segments))


class Place(NamedTuple):
    """How far a stream has come, kept beside a saved session."""

    source: str  # the path of the file, or - for standard input
    offset: int  # bytes that were read
    every: int  # segments between two saves
    clean: bool  # saved because it was interrupted or at its end, so that nothing is read twice


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


class Interruption:
    """Ctrl-C as a question that is asked between two blocks, or at once while waiting for input."""

    def __init__(self) -> None:
        self.asked = self.waiting = False

    def __call__(self, *_: Any) -> None:
        if self.waiting or self.asked:
            raise KeyboardInterrupt
        self.asked = True

    @contextmanager
    def heard(self) -> Iterator[Interruption]:
        before = signal.signal(signal.SIGINT, self)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)


class Stream:
    """One source, read through a session."""

    def __init__(self, session: Session, source: str, file: BinaryIO, save: Path | None, every: int):
        positive("save_every", every)
        self.session, self.source, self.file, self.save_to, self.every = session, source, file, save, every
        self.offset = 0
        self.size = min(session.segment_length * max(1, every // 4), LARGEST_BLOCK)  # bytes of a block
        self.saved = self.segments  # whole segments at the last save

    @property
    def segments(self) -> int:
        return int(self.session.seen[0]) // self.session.segment_length

    def take_up(self, place: Place) -> None:
        """Skip what was read of this source before."""
        self.file.seek(place.offset)
        self.offset = place.offset

    def run(self, tell: Callable[[Progress], None]) -> bool:
        """Read to the end; true if that was reached, false after Ctrl-C. Either way, all is saved."""
        with Interruption().heard() as interruption:
            try:
                self.read(interruption, tell)
            except KeyboardInterrupt:
                if not interruption.waiting:
                    raise
            self.save(clean=True)
            return not (interruption.asked or interruption.waiting)

    def read(self, interruption: Interruption, tell: Callable[[Progress], None]) -> None:
        """Feed block after block, saving before more than `every` segments would be lost."""
        total = Path(self.source).stat().st_size if self.source != "-" else 0
        mark, offset, tokens = time.perf_counter(), self.offset, int(self.session.seen)
        for piece in text_pieces(self.blocks(interruption), self.session.tokenizer):
            self.session.feed(piece.ids)
            self.offset += piece.size
            coming = -(-self.size // self.session.segment_length)
            if self.segments - self.saved + coming > self.every:
                self.save(clean=False)
            now = time.perf_counter()
            seconds, score, seen = now - mark, self.session.score(), int(self.session.seen)
            tell(
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
            if interruption.asked:
                return

    def blocks(self, interruption: Interruption) -> Iterator[bytes]:
        """The source in blocks of at most `size` bytes, as soon as there are some."""
        while True:
            interruption.waiting = True
            block = self.file.read1(self.size)  # type: ignore[attr-defined]
            interruption.waiting = False
            if not block:
                return
            yield block

    def save(self, clean: bool) -> None:
        if self.save_to is not None:
            place = Place(self.source, self.offset, self.every, clean)
            self.session.save(self.save_to, place._asdict())
        self.saved = self.segments


def place_of(session: Session) -> Place:
    """Where the stream of a saved session stood."""
    if set(session.note) != set(Place._fields):
        raise ConfigError("resume: this session was not saved by rmt stream; go on with it in Python")
    return Place(**session.note)
