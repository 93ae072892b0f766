"""`rmt data`: the tasks and their examples; corpora for language modelling."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rmt.cli import data_files
from rmt.cli.arguments import Parser, pair
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt data list
  rmt data show copy --segments 3 --length 8
  rmt data show quadratic --examples 2
  rmt data get wikitext-2
  rmt data prepare wikitext-2
  rmt data prepare my-books/ --tokens characters --out data/books
  rmt data check data/books"""


def main(argv: Sequence[str]) -> int:
    look: dict[str, Any] = {
        "epilog": EXAMPLES,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
    parser = Parser(
        prog="rmt data", description="The tasks and their examples; corpora for language modelling.", **look
    )
    commands = parser.add_subparsers(
        dest="command", metavar="list|show|get|prepare|check", required=True, parser_class=Parser
    )
    commands.add_parser("list", help="a line per task", **look)
    show = commands.add_parser("show", help="describe one task and print examples", **look)
    show.add_argument("task", metavar="TASK")
    show.add_argument("--examples", type=int, default=3, help="how many (default: 3)")
    show.add_argument("--segments", type=int, default=1, help="mark the borders of so many segments")
    show.add_argument("--split", default="test", help="train, valid or test (default: test)")
    show.add_argument("--length", type=int, help="symbols in the input sequence")
    show.add_argument("--task.options", dest="options", metavar="KEY=VALUE", action="append", default=[])
    data_files.add_commands(commands, look)
    arguments = parser.parse_args(argv)
    return RUN[arguments.command](arguments)


def list_tasks(arguments: argparse.Namespace) -> int:
    from rmt.tasks.registry import task_class, task_names

    for name in task_names():
        summary = (task_class(name).__doc__ or "").strip().splitlines()[0]
        print(f"{name:12} {summary}")
    return 0


def show_task(arguments: argparse.Namespace) -> int:
    from rmt.tasks.registry import make_task

    options = dict(pair(item) for item in arguments.options)
    if arguments.length is not None and "length" in options:
        raise ConfigError(f"length={arguments.length} is given twice; leave it out of --task.options")
    if arguments.length is not None:
        options["length"] = arguments.length
    if arguments.examples < 1:
        raise ConfigError(f"examples={arguments.examples} must be at least 1")
    task = make_task(arguments.task, **options)
    length = task.tokens_per_segment(arguments.segments)
    batch = task.split(arguments.split, arguments.examples)
    print(task.describe())
    for row in range(arguments.examples):
        print(f"\nexample {row + 1}")
        for number, start in enumerate(range(0, task.total_length, length), 1):
            place = slice(start, start + length)
            tokens, targets = batch.tokens[row, place].tolist(), batch.targets[row, place].tolist()
            counted = batch.loss_mask[row, place].tolist()
            label = f"  segment {number}" if arguments.segments > 1 else "  sequence"
            print(f"{label}  in   {task.render(tokens)}")
            if any(counted):
                answers = [target for target, counts in zip(targets, counted, strict=True) if counts]
                print(f"{' ' * len(label)}  loss {task.render(answers)}")
    return 0


RUN = {
    "list": list_tasks,
    "show": show_task,
    "get": data_files.get,
    "prepare": data_files.prepare,
    "check": data_files.check,
}
