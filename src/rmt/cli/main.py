"""The command `rmt`: finds the subcommand, turns a user's mistake into one line and exit code 2."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from rmt.cli.notes import notes
from rmt.cli.terminal import open_standard_streams, printable_output
from rmt.errors import RMTError, shortened, shown, unknown
from rmt.stopping import OF_SIGNALS, Interrupted, handling_signals, reraising_interruptions

COMMANDS = {
    "demo": "watch an RMT carry a sequence across segments where others cannot",
    "train": "train a model on a task",
    "evaluate": "measure a trained run on a split",
    "attention": "look into the memory of a trained run",
    "finetune": "a pretrained model with memory learns from documents, or to write them",
    "predict": "label documents by such a run",
    "info": "what memory would be for a pretrained model",
    "stream": "read a text of any length in constant memory",
    "generate": "go on with a text, printed as it is written",
    "export": "one segment of a model as a file for other programs",
    "data": "list the tasks, show examples, prepare texts",
    "runs": "list runs and compare them",
    "plot": "learning curves of one or many runs",
    "bench": "how fast training is here, eager and on the fast path",
    "reproduce": "train all runs of one of the paper's comparisons",
    "report": "results of many runs as one table beside the paper's",
    "completion": "a script that completes commands, flags and values in your shell",
}
RESUMING = {"train", "finetune", "reproduce"}  # commands that go on where a signal has ended them

OUT_OF_MEMORY = (  # in the words of torch
    "can't allocate memory",
    "Cannot allocate memory",  # of the system, where a file is mapped
    "not enough memory",
    "out of memory",
    "Storage size calculation overflowed",
    "numel: integer multiplication overflow",
)


def program() -> NoReturn:
    """The program `rmt`; one process of many ends by itself, without Python's own way to its end.

    torch's caches keep the group of a sharded run, and so threads of gloo. One that lets go of a last message
    when Python has begun to end would have to wait for it for ever, and aborts the process instead.
    """
    code = main()
    processes = sys.modules.get("rmt.train.processes")  # loaded where there may be others
    if processes is None or processes.world_size() == 1:
        sys.exit(code)
    processes.leave()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, here or at its other end
            stream.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rmt COMMAND …`; returns the exit code."""
    open_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with handling_signals(), printable_output(), notes():
            return run(arguments)
    except KeyboardInterrupt as error:
        remedy = "; a run goes on with the same command" if set(arguments[:1]) & RESUMING else ""
        print(f"rmt: {str(error) or 'interrupted'}{remedy}", file=sys.stderr)
        return error.exit_code if isinstance(error, Interrupted) else OF_SIGNALS + signal.SIGINT


def run(arguments: list[str]) -> int:
    """Find the command and run it; errors are a line."""
    try:
        if arguments[:1] == ["help"]:
            arguments = [*arguments[1:], "--help"]
        if not arguments or arguments[0] in ("-h", "--help"):
            print(usage())
            return 0
        if arguments[0] == "--version":
            from rmt import __version__

            print(f"rmt {__version__}")
            return 0
        if arguments[0] not in COMMANDS:
            raise unknown("command", arguments[0], COMMANDS)
        with reraising_interruptions():
            return int(importlib.import_module(f"rmt.cli.{arguments[0]}").main(arguments[1:]))
    except RMTError as error:
        print(f"rmt: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (MemoryError, RuntimeError) as error:
        if not is_about_memory(error):
            raise
        reason = shortened(" ".join(str(error).split()))
        print(
            f"rmt: not enough memory ({reason}); make the batch, the length, the memory or the model smaller",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        file = f"{shown(error.filename)}: " if error.filename else ""
        print(f"rmt: {file}{error.strerror or error}; mend it, or name another place", file=sys.stderr)
        return 2


def is_about_memory(error: Exception) -> bool:
    """Whether there is too little memory, or a size that no memory has; torch has no class for that."""
    text = str(error)
    return isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY)


def usage() -> str:
    lines = "\n".join(f"  {name:11}{text}" for name, text in COMMANDS.items())
    return (
        "usage: rmt COMMAND [OPTIONS], or rmt help [COMMAND]\n\n"
        "Recurrent Memory Transformer: memory tokens that carry information between segments.\n\n"
        f"commands:\n{lines}\n\n"
        "examples:\n  rmt demo\n  rmt train copy --segments 3 --length 8 --target 0.99\n  rmt train --help\n"
    )


if __name__ == "__main__":
    program()
