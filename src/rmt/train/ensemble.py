"""Seeds of one configuration trained at once: each as if it were alone, their updates made together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from rmt.errors import ConfigError, RMTError
from rmt.train.config import RunConfig
from rmt.train.learner import Answer, Request
from rmt.train.loop import Loop
from rmt.train.parallel import world_size
from rmt.train.stack import Stack, ages


class Waiting(NamedTuple):
    """A run that has asked for an update."""

    life: Generator[Request, Answer, dict[str, Any]]
    request: Request

    @property
    def shape(self) -> tuple[Any, ...]:
        """What requests have to share to be one; capacities can be agreed on."""
        sizes = tuple(tensor.shape for tensor in self.request.inputs)
        return self.request.kind._replace(capacities=()), sizes


class Ensemble:
    """Runs that differ in their seeds only; one that reaches its target leaves.

    Those at the least step go on together, so runs that were stopped at different steps meet again.
    """

    def __init__(self, loops: Sequence[Loop]):
        self.loops = loops
        self.stack = Stack([])
        self.waiting: dict[Loop, Waiting] = {}
        self.results: dict[Loop, dict[str, Any]] = {}
        self.errors: list[RMTError] = []

    def run(self) -> list[dict[str, Any]]:
        """The results in order; a run that fails leaves, and its error is raised when the others are over."""
        for loop in self.loops:
            self.go_on(loop, loop.life(), None)
        while self.waiting:
            chosen = self.next_together()
            asked = [self.waiting.pop(loop) for loop in chosen]
            answers = self.stack.answer([one.request for one in asked])
            for loop, one, answer in zip(chosen, asked, answers, strict=True):
                self.go_on(loop, one.life, answer)
        self.stack.release()
        if self.errors:
            raise self.errors[0]
        return [self.results[loop] for loop in self.loops]

    def go_on(self, loop: Loop, life: Any, answer: Answer | None) -> None:
        """Let a run use its answer, up to its next request or its end."""
        try:
            self.waiting[loop] = Waiting(life, life.send(answer))
        except StopIteration as end:
            self.results[loop] = end.value
        except RMTError as error:
            self.errors.append(error)

    def next_together(self) -> list[Loop]:
        """The runs whose updates are made next, stacked."""
        least = min(loop.trainer.step for loop in self.waiting)
        behind = [loop for loop in self.loops if loop in self.waiting and loop.trainer.step == least]
        chosen = [loop for loop in behind if self.waiting[loop].shape == self.waiting[behind[0]].shape]
        if [loop.trainer for loop in chosen] == self.stack.trainers:
            return chosen
        self.stack.release()
        chosen = [loop for loop in chosen if ages(loop.trainer) == ages(chosen[0].trainer)]
        self.stack = Stack([loop.trainer for loop in chosen])
        return chosen


def require_stackable(config: RunConfig) -> None:
    """Refuse what makes the updates of seeds differ in kind, or cannot be stacked."""
    if world_size() > 1:
        raise ConfigError(
            f"seeds are trained together by one process, not by {world_size()}; leave torchrun or srun out, "
            "or train each with --seed"
        )
    refused = {
        f"strategy={config.strategy}": config.strategy == "fsdp",
        "rate.schedule=plateau": config.rate.schedule == "plateau",
        f"curriculum.over={config.curriculum.over}": config.curriculum.over != "none",
        "bptt.checkpoint=True": config.bptt.checkpoint,
    }
    for setting in (name for name, is_set in refused.items() if is_set):
        raise ConfigError(
            f"{setting} does not go with many seeds at once; train them one by one with --seed, or use "
            "another setting"
        )
