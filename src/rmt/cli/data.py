"""`rmt data`: the tasks and their examples; corpora for language modelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rmt.cli import data_files, task_options
from rmt.cli.data_files import EXAMPLES
from rmt.cli.front import Command, Options, TrustOptions
from rmt.cli.training import require_trusted_classes
from rmt.config import at_least, check_fields, option, required
from rmt.errors import ConfigError, unknown
from rmt.location import trusting

EXAMPLES_SHOWN = 3
ABOUT = "The tasks and their examples; corpora for language modelling."


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """The options of `rmt data list`: there are none."""


@dataclass(frozen=True, kw_only=True)
class ShownTask:
    """A task, by the names that its settings have in `rmt train`."""

    name: str = required("a task's name, or module:Class", argument="TASK")
    segments: int = option(1, "mark the borders of so many segments", at_least(1))
    length: int | None = option(None, "symbols in the input sequence; none = as in rmt train", at_least(1))
    data: str | None = option(None, "text: a corpus, a prepared folder or a text; memory-qa: its folder")
    options: dict[str, Any] = option({}, "further options of the task, as KEY=VALUE")

    def __post_init__(self) -> None:
        check_fields(self, "task")
        for name, value in self.named().items():
            if name in self.options:
                raise ConfigError(f"{name}={value} is given twice; leave it out of --task.options")

    def named(self) -> dict[str, Any]:
        """The options of the task that have a flag of their own here."""
        named = {"length": self.length, "data": self.data}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ShowOptions(TrustOptions):
    """The options of `rmt data show`."""

    task: ShownTask = required("what to show")
    examples: int | None = option(None, f"how many; none = {EXAMPLES_SHOWN}, or all if fewer", at_least(1))
    split: Literal["train", "valid", "test"] = option("test", "which examples")


def list_tasks(options: ListOptions) -> int:
    from rmt.tasks.registry import task_class, task_names

    for name in task_names():
        summary = (task_class(name).__doc__ or "").strip().splitlines()[0]
        print(f"{name:12} {summary}")
    return 0


def examples_of(task: Any, options: ShowOptions) -> Any:
    """As many as asked for, which must be there, or a few."""
    from rmt.tasks.task import BeyondSplit

    count = options.examples or len(task.beginning(options.split, EXAMPLES_SHOWN).tokens) or 1
    try:
        return task.split(options.split, count)
    except BeyondSplit as error:
        raise error.said_of("examples", count) from None


def show_task(options: ShowOptions) -> int:
    from rmt.experiments.recipe import sizes_of
    from rmt.tasks.registry import declared_options, make_task, task_class

    shown = options.task
    usual = sizes_of({"task": {"name": shown.name}}, "modern", "small").get("task", {})
    further = declared_options(task_class(shown.name), shown.options)
    task = make_task(shown.name, **(usual | further | shown.named()))
    if shown.segments > 1 and "segments" not in task.settings:
        raise ConfigError(f"segments={shown.segments} has no effect on task {shown.name!r}; leave it out")
    step = task.tokens_per_segment(shown.segments)
    batch = examples_of(task, options)
    print(task.describe())
    for row in range(len(batch.tokens)):
        print(f"\nexample {row + 1}")
        for number, start in enumerate(range(0, task.total_length, step), 1):
            span = slice(start, start + step)
            tokens, targets = batch.tokens[row, span].tolist(), batch.targets[row, span].tolist()
            counted = batch.loss_mask[row, span].tolist()
            label = f"  segment {number}" if step < task.total_length else "  sequence"
            print(f"{label}  in   {task.render(tokens)}")
            if any(counted):
                answers = [target for target, counts in zip(targets, counted, strict=True) if counts]
                print(f"{' ' * len(label)}  loss {task.render(answers)}")
    return 0


LIST = Command("data list", "A line per task.", EXAMPLES, ListOptions)
SHOW = Command(
    "data show",
    "Describe one task and print examples.",
    EXAMPLES,
    ShowOptions,
    aliases={"length": "task.length", "segments": "task.segments", "data": "task.data"},
    appendix=task_options.section,
)
COMMANDS = (LIST, SHOW, *data_files.COMMANDS)
RUN: dict[str, Callable[[Any], int]] = {"list": list_tasks, "show": show_task, **data_files.RUN}


def main(argv: Sequence[str]) -> int:
    if argv and argv[0] in ("-h", "--help"):
        print(usage())
        return 0
    if not argv:
        raise ConfigError(f"the command is missing: rmt data {'|'.join(RUN)}; see rmt data --help")
    if argv[0] not in RUN:
        raise unknown("data command", argv[0], RUN)
    command = next(command for command in COMMANDS if command.name == f"data {argv[0]}")
    invocation = command.collect(argv[1:])
    if invocation is None or invocation.printed():
        return 0
    options = invocation.options
    with trusting(isinstance(options, TrustOptions) and options.trust):
        require_trusted_classes(invocation)
        return RUN[argv[0]](options)


def usage() -> str:
    lines = "\n".join(f"  {command.name.split()[1]:10} {command.about}" for command in COMMANDS)
    return f"usage: rmt data {'|'.join(RUN)} [OPTIONS]\n\n{ABOUT}\n\ncommands:\n{lines}\n\n{EXAMPLES}"
