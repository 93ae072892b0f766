"""From easy to hard: training examples grow in length or in segments as the model masters them."""

from __future__ import annotations

from math import floor
from typing import NamedTuple

from rmt.errors import ConfigError
from rmt.tasks.segments import divides_into
from rmt.tasks.task import Task
from rmt.train.config import CurriculumConfig


class Stage(NamedTuple):
    """What a stage trains on."""

    task: Task
    length: int  # tokens per segment


class Curriculum:
    """Stages up to the whole task; without a curriculum there is one."""

    def __init__(self, config: CurriculumConfig, task: Task, segments: int):
        self.config = config
        self.stages = [
            stage_of(config.over, task, segments, value) for value in values(config, task, segments)
        ]
        self.number = 0

    @property
    def stage(self) -> Stage:
        return self.stages[self.number]

    @property
    def finished(self) -> bool:
        """Whether training is on the whole task."""
        return self.number >= len(self.stages) - 1

    def trained(self, accuracy: float) -> bool:
        """Learn of the training accuracy; true if it has earned another stage."""
        if self.finished or accuracy < self.config.promote_at:
            return False
        self.number += 1
        return True

    def is_over(self, done: float) -> bool:
        """Learn how large a share of all steps is done; true if the whole task begins, earned or not."""
        if self.finished or not self.config.until <= done < 1:
            return False
        self.number = len(self.stages) - 1
        return True


def values(config: CurriculumConfig, task: Task, segments: int) -> list[int]:
    """The values of what grows: start, start · growth, …, the whole task's own."""
    if config.over == "none":
        return [segments]
    if config.over == "length" and not task.grows:
        raise ConfigError(
            f"curriculum.over=length: inputs of task {task.name!r} have one length; use segments"
        )
    final = segments if config.over == "segments" else getattr(task, task.grows)
    if not 1 <= config.start <= final:
        raise ConfigError(f"curriculum.start={config.start} must be 1 to {final}, the task's {config.over}")
    grown, value = [], config.start
    while value < final:
        if config.over == "length" or divides_into(task.total_length, value):
            grown.append(value)
        value = max(value + 1, floor(value * config.growth))
    return [*grown, final]


def stage_of(over: str, task: Task, segments: int, value: int) -> Stage:
    """A shorter input, or the whole input in fewer segments.

    A shorter input has as many segments, so that as much of it has to be carried, if it can with its question
    alone in the last. Where it is too short for as many, its segments are as long as in the end.
    """
    if over == "segments":
        return Stage(task, task.tokens_per_segment(value))
    whole, shorter = task.tokens_per_segment(segments), task
    if over == "length" and value < getattr(task, task.grows):
        shorter = task.with_length(value)
        if 0 < (length := carrying_length(shorter, segments)) <= whole:
            return Stage(shorter, length)
        if divides_into(shorter.total_length, segments):
            return Stage(shorter, shorter.tokens_per_segment(segments))
    return Stage(shorter, whole)


def carrying_length(task: Task, segments: int) -> int:
    """Tokens per segment with which the last of `segments` is the question, all of it alone; 0 for none.

    Two pairs of which one stands beside the question are answered without binding the value of the other to
    its key, and memory that has learned that stays at "one of two values".
    """
    if not task.question or segments == 1:
        return 0
    length, left_over = divmod(task.total_length - task.question, segments - 1)
    return length if not left_over and length >= task.question else 0
