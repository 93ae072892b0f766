"""`rmt demo`: watch an RMT recall a sequence from further back than a cache can reach."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmt.cli.front import Command, Options
from rmt.cli.terminal import console
from rmt.config import above, option
from rmt.errors import RMTError

if TYPE_CHECKING:
    from rmt.experiments.demo import Distance

EXAMPLES = """examples:
  rmt demo
  rmt demo --restart --steps 1000"""


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """The options of `rmt demo`."""

    out: str = option("demo", "folder for the runs and the picture")
    steps: int = option(600, "updates per model, or fewer if it gets there before", above(0))
    restart: bool = option(False, "train anew")
    quiet: bool = option(False, "print the results only")


COMMAND = Command(
    "demo",
    "Train three models side by side on the CPU to recall a sequence, and show what they learned.",
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
    from rmt.experiments.demo import DELAY, LENGTH, SEGMENTS

    return (
        f"Recall: read {LENGTH} random symbols, then {DELAY} others, then write down the first {LENGTH}.\n"
        f"They come in {SEGMENTS} segments, so what is asked for is long out of sight: only what a model\n"
        "carries over helps.\n"
    )


def train_all(folder: Path, options: DemoOptions) -> dict[str, dict[str, Any]]:
    """The results of all models, trained or found."""
    from rmt.cli.progress import observers
    from rmt.experiments.demo import MODELS, train_all

    with ExitStack() as shown:
        watchers = observers([f"{name:14}" for name in MODELS], options.steps, options.quiet)
        for watcher in watchers:
            shown.enter_context(watcher)
        return train_all(folder, options.steps, dict(zip(MODELS, watchers, strict=True)), options.restart)


def show_table(results: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    from rmt.config import from_dict
    from rmt.experiments.demo import demonstrated_task, distance
    from rmt.train.config import RunConfig

    samples = next(iter(results.values()))["metrics"]["samples"]
    title = f"Right, free-running on {samples:,} test sequences (a guess: 0.100)"
    table = Table(title=title, title_justify="left")
    for heading in ("model", "state", "reach", "characters", "sequences", "training"):
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    for name, result in results.items():
        metrics = result["metrics"]
        asked = distance(from_dict(RunConfig, result["config"]))
        table.add_row(
            name,
            f"{result['state_bytes']:,} bytes",
            reach_in_words(asked),
            f"{metrics['accuracy']:.3f}",
            f"{metrics['sequence_accuracy']:.3f}",
            f"{result['steps']} steps",
        )
    console().print(table)
    print(
        "reach: tokens before its segment that a model can know of, however well it is trained. What is\n"
        f"asked for lies {asked.nearest} to {asked.furthest} tokens back: too far for a cache of "
        f"{demonstrated_task()[1]} tokens in two layers."
    )


def reach_in_words(asked: Distance) -> str:
    """How far a model reaches, beside how far the nearest of what is asked for lies."""
    if asked.reach < asked.nearest:
        return f"{asked.reach} < {asked.nearest}"
    return "no limit" if asked.reach == float("inf") else f"{asked.reach}"


def show_picture(folder: Path) -> None:
    from rmt.experiments.demo import picture

    try:
        print(f"\npicture of the memory at work: {picture(folder)}")
    except RMTError as error:
        print(f"\nno picture of the memory: {error}")


def show_example(folder: Path) -> None:
    from rmt.experiments.demo import work_example

    example = work_example(folder)
    print()
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
