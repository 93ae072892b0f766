"""A look into a trained run: the page of its attention, and the clearest head of every operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rmt.analysis.capture import capture
from rmt.analysis.examples import Example, task_examples, text_example
from rmt.analysis.explorer import clearest, explore
from rmt.analysis.operations import Finding
from rmt.errors import ConfigError
from rmt.experiments.opened import OpenedRun, open_run
from rmt.experiments.run import facts
from rmt.experiments.run_data import encodes_text, run_data
from rmt.experiments.wrapped_look import is_wrapped, look_into_wrapped
from rmt.location import require_trust
from rmt.tasks.registry import task_class
from rmt.tasks.unknown import UnknownRule


@dataclass(frozen=True, kw_only=True)
class Look:
    """What to look at: examples of a split, or a text, for which the run folder is enough."""

    text: str | None = None
    split: str = "test"
    example: int = 1  # number of the first
    examples: int = 4
    segments: int | None = None  # other number of segments than in training
    data: str | None = None  # where the data are now
    unknown: str | None = None  # what becomes of symbols that the model does not know


def look(run: str | Path, asked: Look) -> tuple[str, Sequence[Finding]]:
    """The page of a run, and the clearest head of every operation in its first example."""
    if is_wrapped(Path(run)):
        return look_into_wrapped(Path(run), asked)
    opened = open_run(run)
    if asked.text is None or asked.segments is not None:
        require_trust(opened.config.task.name, "task.name", opened.folder)
    examples, length = chosen(opened, asked)
    symbols = opened.tokenizer.shown()
    symbols = [*symbols, *[""] * (opened.model.config.vocabulary - len(symbols))]  # what memory predicts
    page = explore(opened.model, examples, length, symbols, Path(run).name, facts(opened.config, length))
    return page, clearest(capture(opened.model, examples[0].tokens, length))


def chosen(opened: OpenedRun, asked: Look) -> tuple[list[Example], int]:
    """The examples, and the tokens of a segment."""
    refuse_without_effect(opened, asked)
    config = opened.config
    if asked.text is not None and asked.segments is None:
        return [own_example(opened, asked)], opened.segment_length
    if asked.segments is not None:
        config = replace(config, task=replace(config.task, segments=asked.segments))
    with run_data(opened.folder, config, asked.data, asked.unknown) as task:
        length = task.tokens_per_segment(config.task.segments)
        if asked.text is not None:
            return [own_example(opened, asked)], length
        return task_examples(task, asked.split, asked.example, asked.examples), length


def own_example(opened: OpenedRun, asked: Look) -> Example:
    """A user's text; what the model does not know goes by the rule."""
    rule = UnknownRule.parse(asked.unknown or "error")
    return text_example(opened.tokenizer.with_unknown(rule), asked.text or "")


def refuse_without_effect(opened: OpenedRun, asked: Look) -> None:
    """Raise for an option that would change nothing."""
    name = opened.config.task.name
    if asked.text is not None and asked.data is not None and asked.segments is None:
        raise ConfigError(f"data={asked.data} has no effect on a text of your own; leave it out")
    if asked.text is None and asked.unknown is not None and not encodes_text(opened.folder):
        raise ConfigError(f"unknown={asked.unknown} has no effect on task {name!r}; leave it out")
    if asked.segments is not None and "segments" not in task_class(name).settings:
        raise ConfigError(f"segments={asked.segments} has no effect on task {name!r}; leave it out")
