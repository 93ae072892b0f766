"""`rmt generate RUN`: go on with a text, or with what a stream has read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from rmt.cli.front import Command, TrustOptions
from rmt.cli.terminal import write_text
from rmt.config import Interval, at_least, option, required
from rmt.errors import ConfigError
from rmt.location import trusting
from rmt.precision import TO_USE, AskedPrecision
from rmt.tasks.unknown import RULES, UnknownRule

EXAMPLES = """examples:
  rmt generate RUN --prompt "It was the best of times" --tokens 400
  rmt generate RUN --prompt "3 1 4 1 5 9 2 6 |" --tokens 16 --temperature 0    a run of the task copy
  rmt generate RUN --resume book.state --seed 1                               go on with a streamed book
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
    resume: str | None = option(None, "go on from a state that rmt stream saved")
    tokens: int = option(200, "how many", at_least(0))
    temperature: float = option(1.0, "0 = always the likeliest", at_least(0))
    top_k: int | None = option(None, "only so many of the likeliest tokens", at_least(1))
    top_p: float = option(1.0, "only the likeliest of this probability", Interval(0, 1, low_open=True))
    seed: int | None = option(None, "the same seed gives the same text", at_least(0))
    stop: str | None = option(None, "end behind this text")
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")
    precision: AskedPrecision = option("auto", TO_USE)

    def __post_init__(self) -> None:
        super().__post_init__()
        UnknownRule.parse(self.unknown)
        if self.prompt and self.file:
            raise ConfigError(f"prompt and file={self.file!r} are both a text to go on with; leave one out")


COMMAND = Command("generate", "Print what a trained run writes, as it writes it.", EXAMPLES, GenerateOptions)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    if not (options.prompt or options.file or options.resume):
        raise ConfigError("prompt is missing: give a text with --prompt, or a saved state with --resume")
    from rmt.experiments.stream import open_session

    with trusting(options.trust):
        session = open_session(
            options.run, options.device, options.resume, options.unknown, options.precision
        )
    if options.prompt or options.file:
        unknown = feed_prompt(session, options.prompt, options.file)
        if unknown:
            print(f"rmt: {unknown:,} symbols are not in the model's vocabulary", file=sys.stderr)
    tokens = session.generate(
        options.tokens,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
        stop=options.stop,
    )
    decode = session.tokenizer.decoder()
    for token in tokens:
        write_text(decode(int(token)))
    write_text("\n")
    return 0


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
