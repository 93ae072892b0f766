"""What a person sees of a run: a live bar in a terminal, plain lines in a pipe, nothing if quiet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rmt.cli.notes import seldom, warn
from rmt.cli.terminal import console
from rmt.errors import printable

if TYPE_CHECKING:
    from rich.console import Console


class Quiet:
    """An observer that only passes on warnings."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *error: object) -> None: ...

    def begin(self, steps: int) -> None: ...

    def note(self, text: str) -> None: ...

    def warning(self, text: str) -> None:
        print(f"rmt: {text}", file=sys.stderr)

    def logged(self, record: dict[str, Any]) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def testing(self, done: int, total: int) -> None: ...

    def tested(self, result: dict[str, Any]) -> None: ...


class Silent(Quiet):
    """The observer of a process that leaves all words to the first one."""

    def warning(self, text: str) -> None: ...


class Lines(Quiet):
    """A line per evaluation, for pipes and log files."""

    def __init__(self, label: str):
        self.label = label
        self.loss = float("nan")
        self.tell_test: Callable[[int, int], None] | None = None  # since the test has begun

    def note(self, text: str) -> None:
        print(f"{self.label}  {text}", flush=True)

    def logged(self, record: dict[str, Any]) -> None:
        self.loss = record["loss"]

    def evaluated(self, record: dict[str, Any]) -> None:
        print(f"{self.label}  step {record['step']}  loss {self.loss:.3f}  {scores(record)}", flush=True)

    def testing(self, done: int, total: int) -> None:
        if self.tell_test is None:
            self.tell_test = seldom(lambda done, total: self.note(f"test {done:,}/{total:,}"))
        self.tell_test(done, total)


class Bar(Quiet):
    """A live progress bar with loss, accuracy, speed and the time that is left."""

    def __init__(self, label: str, steps: float, progress: Progress):
        self.progress, self.label, self.accuracy = progress, label, ""
        self.bar = self.progress.add_task(label, total=steps, numbers="")

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def begin(self, steps: int) -> None:
        self.progress.update(self.bar, total=steps)

    def note(self, text: str) -> None:
        self.progress.console.print(printable(f"{self.label}  {text}"))

    def logged(self, record: dict[str, Any]) -> None:
        speed = f"  {record['tokens_per_second'] / 1000:.1f}k tok/s" if "tokens_per_second" in record else ""
        numbers = f"loss {record['loss']:.3f}  {self.accuracy}{speed}"
        self.progress.update(self.bar, completed=record["step"], numbers=numbers)

    def evaluated(self, record: dict[str, Any]) -> None:
        self.accuracy = scores(record).split("  ")[0]

    def testing(self, done: int, total: int) -> None:
        self.progress.update(self.bar, description=f"{self.label} (test)", completed=done, total=total)


@contextmanager
def counting(label: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A function that shows how much of a long work is done: by a bar, in a pipe by a line now and then."""
    terminal = console(stderr=True)
    if quiet:
        yield lambda done, total: None
        return
    if not terminal.is_terminal:
        yield seldom(lambda done, total: warn(f"{label} {done:,}/{total:,}"))
        return
    with Progress(
        *Progress.get_default_columns(), TimeElapsedColumn(), console=terminal, transient=True
    ) as progress:
        bar = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def scores(record: dict[str, Any]) -> str:
    """What an evaluation found, the most important number first."""
    if "perplexity" in record:
        return f"perplexity {record['perplexity']:.3f}{bits(record)}"
    if record.get("split") == "valid" and "sequence_accuracy" not in record:
        names = [name for name in record if name not in ("step", "epoch", "split", "loss")]
        return "  ".join(f"{spelled(name)} {record[name]:.4f}" for name in names)
    return f"accuracy {record['accuracy']:.4f}  sequences {record['sequence_accuracy']:.4f}"


def spelled(metric: str) -> str:
    """The name of a metric for readers."""
    return {"f1": "F1", "entity_f1": "F1 of entities"}.get(metric, metric)


def bits(metrics: dict[str, Any]) -> str:
    """Bits per character, where tokens are characters."""
    name = "bits_per_character"
    return f"  bits per character {metrics[name]:.4f}" if name in metrics else ""


def live(terminal: Console) -> Progress:
    """The place of one bar or many in a terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(),
        console=terminal,
    )


def observer(label: str, steps: float, quiet: bool) -> Quiet:
    """The observer that fits where the output goes."""
    return observers([label], steps, quiet)[0]


def observers(labels: Sequence[str], steps: float, quiet: bool) -> list[Quiet]:
    """An observer for each of some runs that go on together."""
    terminal = console()
    if quiet:
        return [Quiet() for _ in labels]
    if not terminal.is_terminal:
        return [Lines(label) for label in labels]
    progress = live(terminal)
    return [Bar(label, steps, progress) for label in labels]
