"""`rmt demo`: watch an RMT carry a sequence across segment borders where a plain Transformer cannot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmt.cli.front import Command, Options
from rmt.cli.terminal import console
from rmt.config import above, option
from rmt.errors import RMTError

EXAMPLES = """examples:
  rmt demo
  rmt demo --restart --steps 400"""


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """The options of `rmt demo`."""

    out: str = option("demo", "folder for the runs and the picture")
    steps: int = option(500, "updates per model", above(0))
    restart: bool = option(False, "train anew")
    quiet: bool = option(False, "print the results only")


COMMAND = Command(
    "demo",
    "Train three models on copy over three segments on the CPU, and show what they learned.",
    EXAMPLES,
    DemoOptions,
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.experiments.demo import explorer

    folder, start = Path(options.out), time.perf_counter()
    if not options.quiet:
        print(introduction())
    results = train_all(folder, options)
    show_table(results)
    show_example(folder)
    show_picture(folder)
    page = explorer(folder)
    print(f"runs: {folder}/  ({time.perf_counter() - start:.0f} s)")
    print(f"explore the memory in your browser: {page}")
    return 0


def introduction() -> str:
    return (
        "Copy: read 8 random symbols, then write them down twice. The 24 tokens come in 3 segments of 8,\n"
        "so the answer is due when the source is out of sight. Only what a model carries over helps.\n"
    )


def train_all(folder: Path, options: DemoOptions) -> dict[str, dict[str, Any]]:
    """The results of all models, trained or found."""
    from rmt.cli.progress import observer
    from rmt.experiments.demo import MODELS, config
    from rmt.experiments.run import train

    results = {}
    for name in MODELS:
        settings = config(name, options.steps)
        with observer(f"{name:14}", settings.train.steps, options.quiet) as watcher:
            results[name], _ = train(settings, folder / name, watcher, restart=options.restart)
    return results


def show_table(results: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title="Right, free-running on 10,000 test sequences", title_justify="left")
    for heading in ("model", "state carried", "characters", "sequences", "training"):
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    for name, result in results.items():
        metrics = result["metrics"]
        table.add_row(
            name,
            f"{result['state_bytes']:,} bytes",
            f"{metrics['accuracy']:.3f}",
            f"{metrics['sequence_accuracy']:.3f}",
            f"{result['steps']} steps, {result['seconds']:.0f} s",
        )
    console().print(table)


def show_picture(folder: Path) -> None:
    from rmt.experiments.demo import picture

    try:
        print(f"\npicture of the memory at work: {picture(folder)}")
    except RMTError as error:
        print(f"\nno picture of the memory: {error}")


def show_example(folder: Path) -> None:
    from rmt.experiments.demo import work_example

    example = work_example(folder)
    print(f"\nsource          {example.source}")
    for number, segment in enumerate(example.segments, 1):
        print(f"segment {number}       {segment}")
    print(f"wanted          {example.wanted}")
    for name, answer in example.answers.items():
        marks = "".join(
            "  " if symbol == wanted else "^ "
            for symbol, wanted in zip(answer.split(), example.wanted.split(), strict=True)
        )
        print(f"{name:15} {answer}")
        if marks.strip():
            print(f"{'':15} {marks.rstrip()}")
