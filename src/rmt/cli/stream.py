"""`rmt stream RUN FILE`: read a text of any length in constant memory."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rmt.cli.front import Command, TrustOptions
from rmt.cli.notes import seldom
from rmt.cli.saving import require_new
from rmt.cli.terminal import console
from rmt.config import above, option, required
from rmt.errors import ConfigError, printable
from rmt.location import trusting
from rmt.precision import TO_USE, AskedPrecision, DeviceName
from rmt.stopping import REQUEST, Stopped
from rmt.tasks.unknown import RULES, UnknownRule

EXAMPLES = """examples:
  rmt stream RUN book.txt
  rmt stream RUN huge.txt.gz                         also .xz; .zst where Python or zstandard can
  rmt stream RUN <(tr A-Z a-z < book.txt)            a pipe is a file; so is - for standard input
  rmt stream RUN letters.txt --unknown skip          leave out what the model does not know
  rmt stream RUN huge.txt --save huge.state          saved every 64 segments, at the end, by Ctrl-C
  rmt stream RUN huge.txt --resume huge.state        go on where it stopped, saving to the same file
  rmt stream RUN volume2.txt --resume volume1.state --save volume2.state"""
EVERY = 64  # segments between two saves


@dataclass(frozen=True, kw_only=True)
class StreamOptions(TrustOptions):
    """The options of `rmt stream`."""

    run: str = required("run folder, or one checkpoint in it", argument="RUN")
    file: str = required("a text, or - for standard input", argument="FILE|-")
    save: str | None = option(None, "file for the session's state; it must be new")
    resume: str | None = option(None, "go on from a state, and save there too")
    save_every: int | None = option(None, f"segments between two saves; none = {EVERY}", above(0))
    unknown: str = option(
        "error", f"what becomes of a byte or character that the model does not know: {RULES}"
    )
    device: DeviceName = option("auto", "where to compute")
    precision: AskedPrecision = option("auto", TO_USE)
    json: bool = option(False, "print the result as JSON")
    quiet: bool = option(False, "print the result only")

    def __post_init__(self) -> None:
        super().__post_init__()
        UnknownRule.parse(self.unknown)


COMMAND = Command(
    "stream", "Read a text of any length through a trained run, in constant memory.", EXAMPLES, StreamOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    refuse(options)
    with trusting(options.trust), opened(options.file) as file:
        return run(options, file)


def refuse(options: StreamOptions) -> None:
    """Raise for files that are not there, and for options that would harm or do nothing."""
    if options.save_every is not None and not (options.save or options.resume):
        raise ConfigError(f"save_every={options.save_every} has no effect without --save; leave it out")
    require_new(options.save, options.resume)


def run(options: StreamOptions, file: BinaryIO) -> int:
    from rmt.experiments.opened import use_threads_of
    from rmt.experiments.stream import TextStream, open_session

    use_threads_of(options.run)
    session = open_session(options.run, options.device, options.resume, options.unknown, options.precision)
    target = options.save or options.resume
    source = "-" if options.file == "-" else str(Path(options.file).absolute())
    every = EVERY if options.save_every is None else options.save_every
    stream = TextStream(session, source, file, Path(target) if target else None, every)
    if options.resume:
        take_up(stream, options.quiet)
    before, start = (stream.offset, int(session.seen)), time.perf_counter()
    with progress(options.file, options.quiet) as tell:
        finished = stream.run(tell)
    seconds = time.perf_counter() - start
    report(stream, before, seconds, options.json)
    if finished:
        return 0
    saved = f"and saved; go on with --resume {target}" if target else "but not saved; name a file with --save"
    raise Stopped(REQUEST.signal or signal.SIGINT, f"{stream.offset:,} bytes are read {saved}")


def take_up(stream: Any, quiet: bool) -> None:
    """Go on behind what was read of the same file, and say what that means."""
    from rmt.experiments.stream import saved_position

    position, tokens = saved_position(stream.session), int(stream.session.seen)
    if stream.take_up(position):
        note = f"resuming at byte {position.offset:,} after {tokens:,} tokens"
    else:
        note = (
            f"going on after {tokens:,} tokens of {spoken(position.source)}; "
            f"{spoken(stream.source)} is read from its start"
        )
    if not position.clean:
        note += f"; the last stream was cut off, so up to {position.every} segments of it are read again"
    if not quiet:
        print(f"rmt: {note}", file=sys.stderr)


def spoken(source: str) -> str:
    return "standard input" if source == "-" else source


def report(stream: Any, before: tuple[int, int], seconds: float, as_json: bool) -> None:
    """What was read, how fast, how well, in how much memory."""
    session, score = stream.session, stream.session.score()
    count, tokens = stream.offset - before[0], int(session.seen) - before[1]
    result = {
        "bytes": count,
        "tokens": tokens,
        "all_tokens": int(session.seen),
        "unknown": stream.unknown,
        "perplexity": score.perplexity if score.tokens else None,
        "bits_per_token": score.bits if score.tokens else None,
        "state_bytes": session.state.nbytes,
        "session_bytes": session.nbytes,
        "seconds": round(seconds, 3),
    }
    if as_json:
        print(json.dumps(result))
        return
    quality = "nothing predicts the first token" if tokens else "the stream is empty: nothing was read"
    if score.tokens:
        quality = f"perplexity {score.perplexity:.3f}, {score.bits:.4f} bits per token "
        quality += f"over {score.tokens:,} tokens"
    print(
        f"{count:,} bytes, {tokens:,} tokens in {seconds:.1f} s "
        f"({count / seconds:,.0f} bytes/s, {tokens / seconds:,.0f} tokens/s)\n"
        f"{quality}; state {session.state.nbytes:,} bytes"
        + (f"\n{stream.unknown:,} symbols are not in the model's vocabulary" if stream.unknown else "")
    )


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """A file, or standard input, as bytes."""
    if name == "-":
        yield sys.stdin.buffer
        return
    from rmt.textfile import open_text

    if not Path(name).exists() or Path(name).is_dir():
        problem = "is a folder" if Path(name).is_dir() else "does not exist"
        raise ConfigError(f"file={name!r} {problem}; name a text, or - for standard input")
    with open_text(Path(name)) as file:
        yield file


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """A live line in a terminal, a line now and then in a pipe, nothing if quiet."""
    from rich.progress import BarColumn, Progress, TextColumn

    terminal = console(stderr=True)
    if quiet:
        yield lambda now: None
        return
    if not terminal.is_terminal:
        yield seldom(lambda now: print(numbers(now), file=sys.stderr, flush=True))
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[numbers]}"),
    )
    with Progress(*columns, console=terminal, transient=True) as shown:
        bar = shown.add_task(printable(label), total=None, numbers="")
        yield lambda now: shown.update(
            bar, completed=now.bytes, total=now.total or None, numbers=numbers(now)
        )


def numbers(now: Any) -> str:
    return (
        f"{now.bytes:,} bytes  {now.bytes_per_second:,.0f} bytes/s  {now.tokens_per_second:,.0f} tokens/s  "
        f"perplexity {now.perplexity:.3f}  state {now.state_bytes:,} bytes"
    )
