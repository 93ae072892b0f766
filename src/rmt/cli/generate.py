"""`rmt generate RUN`: go on with a text, or with what a stream has read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from rmt.cli.front import Command, TrustOptions
from rmt.cli.notes import warn
from rmt.cli.saving import require_new
from rmt.cli.terminal import write_text
from rmt.config import Interval, at_least, option, required
from rmt.errors import ConfigError, DataError, shown
from rmt.location import trusting
from rmt.precision import TO_USE, AskedPrecision, DeviceName
from rmt.stopping import REQUEST, Stopped
from rmt.tasks.unknown import RULES, UnknownRule

EXAMPLES = """examples:
  rmt generate RUN --prompt "It was the best of times" --tokens 400
  rmt generate RUN --prompt "3 1 4 1 5 9 2 6 |" --tokens 16 --temperature 0    a run of the task copy
  rmt generate RUN --resume book.state --seed 1                               go on with a streamed book
  rmt generate RUN --prompt "It was" --save tale.state                        to go on with later
  rmt generate RUN --interactive                                              a conversation, line by line
  rmt generate RUN --prompt - < chapter.txt
  rmt generate RUN --file chapter.txt.gz --unknown skip"""


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(TrustOptions):
    """The options of `rmt generate`."""

    run: str = required("run folder, or one checkpoint in it", argument="RUN")
    prompt: str | None = option(None, "a text to go on with, or - for standard input")
    file: str | None = option(None, "a text file or a pipe to go on with, instead")
    unknown: str = option(
        "error", f"what becomes of a byte or character that the model does not know: {RULES}"
    )
    resume: str | None = option(None, "go on from a state that rmt stream or rmt generate saved")
    save: str | None = option(None, "file for the state behind the last token; it must be new")
    interactive: bool = option(False, "go on with each line of standard input, in one session")
    tokens: int = option(200, "how many", at_least(0))
    temperature: float = option(1.0, "0 = always the likeliest", at_least(0))
    top_k: int | None = option(None, "only so many of the likeliest tokens", at_least(1))
    top_p: float = option(1.0, "only the likeliest of this probability", Interval(0, 1, low_open=True))
    seed: int | None = option(None, "the same seed gives the same text", at_least(0))
    stop: str | None = option(None, "end behind this text")
    device: DeviceName = option("auto", "where to compute")
    precision: AskedPrecision = option("auto", TO_USE)

    def __post_init__(self) -> None:
        super().__post_init__()
        UnknownRule.parse(self.unknown)
        if self.prompt and self.file:
            raise ConfigError(f"prompt and file={self.file!r} are both a text to go on with; leave one out")
        if self.prompt == "-" and self.interactive:
            raise ConfigError("prompt=- and interactive would both take standard input; leave one out")


COMMAND = Command("generate", "Print what a trained run writes, as it writes it.", EXAMPLES, GenerateOptions)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    if not (options.prompt or options.file or options.resume or options.interactive):
        raise ConfigError("prompt is missing: give a text with --prompt, or a saved state with --resume")
    require_new(options.save, options.resume)
    from rmt.experiments.opened import use_threads_of
    from rmt.experiments.stream import open_session

    use_threads_of(options.run)
    with trusting(options.trust):
        session = open_session(
            options.run, options.device, options.resume, options.unknown, options.precision
        )
    if options.prompt or options.file:
        tell_unknown(feed_prompt(session, options.prompt, options.file))
        require_read(session, options)
    if options.interactive:
        converse(session, options)
    else:
        answer(session, options)
    if options.save:
        session.save(options.save)
    return 0


def require_read(session: Any, options: GenerateOptions) -> None:
    """Raise where a session has nothing to go on, naming what has held no text."""
    if int(session.seen) or options.interactive:
        return
    source = f"file={options.file!r}" if options.file else f"prompt={shown(options.prompt)}"
    what = ", standard input," if options.prompt == "-" else ""
    raise ConfigError(f"{source}{what} has no text that the model knows; name one to go on with")


def answer(session: Any, options: GenerateOptions) -> None:
    """Write as many tokens as asked for; Ctrl-C ends behind one of them, and what is there can be saved."""
    tokens = drawn(session, options)
    with REQUEST.set_deferred(True):
        count = write(tokens, session)
    if REQUEST.signal:
        saved = "not saved; name a file with --save"
        if options.save:
            session.save(options.save)
            saved = f"saved; go on with --resume {options.save}"
        raise Stopped(REQUEST.signal, f"{count:,} tokens are written and {saved}")


def converse(session: Any, options: GenerateOptions) -> None:
    """Go on with each line that is typed, until the input ends; Ctrl-C ends an answer."""
    from rmt.experiments.stream import feed_text

    warn("type a line to go on with; Ctrl-C ends an answer, Ctrl-D (the end of the input) the conversation")
    while line := prompted():
        text = line.rstrip(b"\n")
        if not text and not int(session.seen):
            continue
        try:
            tell_unknown(feed_text(session, BytesIO(text), "the line"))
        except DataError as error:
            warn(str(error))
            continue
        with REQUEST.set_deferred(True):
            write(drawn(session, options), session)
        REQUEST.signal = 0  # it has ended this answer only


def prompted() -> bytes:
    """The next line of the input; nothing where it ends, also by Ctrl-C."""
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.buffer.readline()
    except KeyboardInterrupt:
        REQUEST.signal = 0
        print(file=sys.stderr)
        return b""


def drawn(session: Any, options: GenerateOptions) -> Iterator[Any]:
    """The tokens that a session goes on with."""
    names = ("temperature", "top_k", "top_p", "seed", "stop")
    tokens: Iterator[Any] = session.generate(
        options.tokens, **{name: getattr(options, name) for name in names}
    )
    return tokens


def write(tokens: Iterator[Any], session: Any) -> int:
    """Print tokens as they come, up to a signal; returns how many they were."""
    decode, count = session.tokenizer.decoder(), 0
    for token in tokens:
        write_text(decode(int(token)))
        count += 1
        if REQUEST.signal:
            break
    write_text("\n")
    return count


def tell_unknown(count: int) -> None:
    if count:
        warn(f"{count:,} symbols are not in the model's vocabulary")


def feed_prompt(session: Any, prompt: str | None, file: str | None) -> int:
    """Feed the text to go on with; returns how many symbols of it the model does not know."""
    from rmt.experiments.stream import feed_text
    from rmt.textfile import open_text

    if file is not None:
        with open_text(Path(file)) as opened:
            return feed_text(session, opened, repr(file))
    if prompt == "-":
        return feed_text(session, sys.stdin.buffer, "standard input")
    return feed_text(session, BytesIO(str(prompt).encode("utf-8", "surrogateescape")), "the prompt")
