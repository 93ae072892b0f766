"""`rmt stream RUN FILE`: read a text of any length in constant memory."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rmt.cli.arguments import command, one_of, parsed
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt stream RUN book.txt
  rmt stream RUN huge.txt.gz                         also .xz; .zst where Python or zstandard can
  rmt stream RUN <(tr A-Z a-z < book.txt)            a pipe is a file; so is - for standard input
  rmt stream RUN letters.txt --unknown skip          leave out what the model does not know
  rmt stream RUN huge.txt --save huge.state          saved every 64 segments, at the end and on Ctrl-C
  rmt stream RUN huge.txt --resume huge.state        go on where it stopped, saving to the same file
  rmt stream RUN volume2.txt --resume volume1.state --save volume2.state"""
EVERY = 64  # segments between two saves
PAUSE = 10.0  # seconds between two lines in a pipe


def main(argv: Sequence[str]) -> int:
    parser = command(
        "rmt stream", "Read a text of any length through a trained run, in constant memory.", EXAMPLES
    )
    parser.add_argument("run", metavar="RUN", help="run folder, or one checkpoint in it")
    parser.add_argument("file", metavar="FILE|-", help="a text, or - for standard input")
    parser.add_argument("--save", metavar="STATE", help="file for the session's state; it must be new")
    parser.add_argument("--resume", metavar="STATE", help="go on from a state, and save there too")
    parser.add_argument("--save_every", type=int, help=f"segments between two saves (default: {EVERY})")
    parser.add_argument(
        "--unknown",
        default="error",
        metavar="error|skip|replace:SYMBOL",
        help="what becomes of a byte or character that the model does not know (default: error)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="print the result only")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    one_of(arguments.device, ["auto", "cpu", "cuda"], "device")
    refuse(arguments)
    with opened(arguments.file) as file:
        return run(arguments, file)


def refuse(arguments: argparse.Namespace) -> None:
    """Raise for files that are not there, and for options that would harm or do nothing."""
    saves = arguments.save or arguments.resume
    if arguments.save_every is not None and not saves:
        raise ConfigError(f"save_every={arguments.save_every} has no effect without --save; leave it out")
    if arguments.save and arguments.save != arguments.resume and Path(arguments.save).exists():
        raise ConfigError(
            f"save={arguments.save!r} exists; go on from it with --resume {arguments.save}, or name another"
        )
    if saves and not Path(arguments.save or arguments.resume).absolute().parent.is_dir():
        raise ConfigError(f"save={saves!r} is in a folder that does not exist; make it first")


def run(arguments: argparse.Namespace, file: BinaryIO) -> int:
    from rmt.experiments.stream import TextStream, open_session

    session = open_session(arguments.run, arguments.device, arguments.resume, arguments.unknown)
    target = arguments.save or arguments.resume
    source = "-" if arguments.file == "-" else str(Path(arguments.file).absolute())
    every = EVERY if arguments.save_every is None else arguments.save_every
    stream = TextStream(session, source, file, Path(target) if target else None, every)
    if arguments.resume:
        take_up(stream, arguments.quiet)
    before, start = (stream.offset, int(session.seen)), time.perf_counter()
    with progress(arguments.file, arguments.quiet) as tell:
        finished = stream.run(tell)
    seconds = time.perf_counter() - start
    report(stream, before, seconds, arguments.json)
    if finished:
        return 0
    rest = f"go on with --resume {target}" if target else "nothing was saved; name a file with --save"
    print(f"rmt: interrupted at byte {stream.offset:,}; {rest}", file=sys.stderr)
    return 130


def take_up(stream: Any, quiet: bool) -> None:
    """Go on behind what was read of the same file, and say what that means."""
    from rmt.experiments.stream import place_of

    place, tokens = place_of(stream.session), int(stream.session.seen)
    if stream.take_up(place):
        said = f"resuming at byte {place.offset:,} after {tokens:,} tokens"
    else:
        said = f"going on after {tokens:,} tokens of {place.source}; {stream.source} is read from its start"
    if not place.clean:
        said += (
            f"; the last stream was cut off, so up to {place.every} segments that it had read are read again"
        )
    if not quiet:
        print(f"rmt: {said}", file=sys.stderr)


def report(stream: Any, before: tuple[int, int], seconds: float, as_json: bool) -> None:
    """What was read, how fast, how well, in how much memory."""
    session, score = stream.session, stream.session.score()
    count, tokens = stream.offset - before[0], int(session.seen) - before[1]
    found = {
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
        print(json.dumps(found))
        return
    print(
        f"{count:,} bytes, {tokens:,} tokens in {seconds:.1f} s "
        f"({count / seconds:,.0f} bytes/s, {tokens / seconds:,.0f} tokens/s)\n"
        f"perplexity {score.perplexity:.3f}, {score.bits:.4f} bits per token over {score.tokens:,} tokens; "
        f"state {session.state.nbytes:,} bytes"
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
        raise ConfigError(f"file={name!r} does not exist; name a text, or - for standard input")
    with open_text(Path(name)) as file:
        yield file


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """A live line in a terminal, a line now and then in a pipe, nothing if quiet."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if quiet:
        yield lambda now: None
        return
    if not console.is_terminal:
        yield lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[numbers]}"),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        bar = shown.add_task(label, total=None, numbers="")
        yield lambda now: shown.update(
            bar, completed=now.bytes, total=now.total or None, numbers=numbers(now)
        )


def lines() -> Callable[[Any], None]:
    """A function that prints what it is told, not too often."""
    last = time.monotonic()

    def tell(now: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            print(numbers(now), file=sys.stderr, flush=True)

    return tell


def numbers(now: Any) -> str:
    return (
        f"{now.bytes:,} bytes  {now.bytes_per_second:,.0f} bytes/s  {now.tokens_per_second:,.0f} tokens/s  "
        f"perplexity {now.perplexity:.3f}  state {now.state_bytes:,} bytes"
    )
