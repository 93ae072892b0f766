"""`rmt generate RUN`: go on with a text, or with what a stream has read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from rmt.cli.arguments import command, one_of, parsed
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt generate RUN --prompt "It was the best of times" --tokens 400
  rmt generate RUN --prompt "3 1 4 1 5 9 2 6 |" --tokens 16 --temperature 0    a run of the task copy
  rmt generate RUN --resume book.state --seed 1                               go on with a streamed book
  rmt generate RUN --prompt - < chapter.txt
  rmt generate RUN --file chapter.txt.gz --unknown skip"""
TOKENS = 200


def main(argv: Sequence[str]) -> int:
    parser = command("rmt generate", "Print what a trained run writes, as it writes it.", EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="run folder, or one checkpoint in it")
    parser.add_argument("--prompt", metavar="TEXT|-", help="a text to go on with, or - for standard input")
    parser.add_argument("--file", metavar="FILE", help="a text file or a pipe to go on with, instead")
    parser.add_argument(
        "--unknown",
        default="error",
        metavar="error|skip|replace:SYMBOL",
        help="what becomes of a byte or character that the model does not know (default: error)",
    )
    parser.add_argument("--resume", metavar="STATE", help="go on from a state that rmt stream saved")
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"how many (default: {TOKENS})")
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="0 = always the likeliest (default: 1)"
    )
    parser.add_argument("--top_k", type=int, help="only so many of the likeliest tokens")
    parser.add_argument("--top_p", type=float, default=1.0, help="only the likeliest of this probability")
    parser.add_argument("--seed", type=int, help="the same seed gives the same text")
    parser.add_argument("--stop", metavar="TEXT", help="end behind this text")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    one_of(arguments.device, ["auto", "cpu", "cuda"], "device")
    if not (arguments.prompt or arguments.file or arguments.resume):
        raise ConfigError("prompt is missing: give a text with --prompt, or a saved state with --resume")
    if arguments.prompt and arguments.file:
        raise ConfigError(f"prompt and file={arguments.file!r} are both a text to go on with; leave one out")
    from rmt.experiments.stream import open_session

    session = open_session(arguments.run, arguments.device, arguments.resume, arguments.unknown)
    if arguments.prompt or arguments.file:
        unknown = feed_prompt(session, arguments.prompt, arguments.file)
        if unknown:
            print(f"rmt: {unknown:,} symbols are not in the model's vocabulary", file=sys.stderr)
    tokens = session.generate(
        arguments.tokens,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        seed=arguments.seed,
        stop=arguments.stop,
    )
    decode = session.tokenizer.decoder()
    for token in tokens:
        print(decode(int(token)), end="", flush=True)
    print()
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
