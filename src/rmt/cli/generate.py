"""`rmt generate RUN`: go on with a text, or with what a stream has read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rmt.cli.front import Command, Options
from rmt.config import Interval, at_least, option, required
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt generate RUN --prompt "It was the best of times" --tokens 400
  rmt generate RUN --prompt "3 1 4 1 5 9 2 6 |" --tokens 16 --temperature 0    a run of the task copy
  rmt generate RUN --resume book.state --seed 1                               go on with a streamed book
  rmt generate RUN --prompt - < chapter.txt"""


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(Options):
    """The options of `rmt generate`."""

    run: str = required("run folder, or one checkpoint in it", argument="RUN")
    prompt: str | None = option(None, "a text to go on with, or - for standard input")
    resume: str | None = option(None, "go on from a state that rmt stream saved")
    tokens: int = option(200, "how many", at_least(0))
    temperature: float = option(1.0, "0 = always the likeliest", at_least(0))
    top_k: int | None = option(None, "only so many of the likeliest tokens", at_least(1))
    top_p: float = option(1.0, "only the likeliest of this probability", Interval(0, 1, low_open=True))
    seed: int | None = option(None, "the same seed gives the same text", at_least(0))
    stop: str | None = option(None, "end behind this text")
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")


COMMAND = Command("generate", "Print what a trained run writes, as it writes it.", EXAMPLES, GenerateOptions)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    if not options.prompt and not options.resume:
        raise ConfigError("prompt is missing: give a text with --prompt, or a saved state with --resume")
    from rmt.experiments.stream import open_session

    session = open_session(options.run, options.device, options.resume)
    if options.prompt:
        session.feed(sys.stdin.buffer if options.prompt == "-" else options.prompt)
    tokens = session.generate(
        options.tokens,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
        stop=options.stop,
    )
    speak = session.tokenizer.speaker()
    for token in tokens:
        print(speak(int(token)), end="", flush=True)
    print()
    return 0
